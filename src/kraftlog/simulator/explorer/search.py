"""Breadth first through all states within a bound."""

from __future__ import annotations

import gc
from array import array
from collections import deque

from kraftlog.simulator.explorer import moves, symmetry, tell
from kraftlog.simulator.explorer.invariants import Broken, check
from kraftlog.simulator.explorer.state import first_state
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.simulator.explorer.bounds import Bound
    from kraftlog.simulator.explorer.state import State


class Outcome(Value):
    """`exhausted`: every state within the bound was seen. `depth` counts moves."""

    states: int
    transitions: int
    depth: int
    exhausted: bool
    broken: str = ""
    #: The shortest way there, a line a move.
    scenario: tuple[str, ...] = ()


class _Search:
    """How each state was reached, and how much was looked at."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        #: For each state the one before, and which of its moves led here.
        self.before = array("q")
        self.choice = array("B")
        self.transitions = 0

    def note(self, before: int, choice: int) -> int:
        """The number of a state that was not known."""
        self.before.append(before)
        self.choice.append(choice)
        return len(self.before) - 1

    def way_to(self, number: int) -> list[moves.Move]:
        """The moves from the first state; made again, as keeping them all takes much memory."""
        choices = []
        while number:
            choices.append(self.choice[number])
            number = self.before[number]
        state, way = first_state(self.bound), []
        for choice in reversed(choices):
            way.append(list(moves.moves(state, self.bound))[choice])
            state = moves.after(state, way[-1])
        return way

    def outcome(self, depth: int, *, exhausted: bool) -> Outcome:
        return Outcome(len(self.before), self.transitions, depth, exhausted)

    def broken(self, number: int, last: moves.Move, error: Exception) -> Outcome:
        way = [*self.way_to(number), last]
        what = str(error) or type(error).__name__
        found = self.outcome(len(way), exhausted=False)
        return found.replace(broken=what, scenario=tuple(tell.scenario(self.bound, way, what)))


def explore(bound: Bound, max_states: int, go_on: Callable[[], bool] = lambda: True) -> Outcome:
    """Until all is seen, something is broken, or there are too many states or no time."""
    gc.disable()  # the states refer to each other in no circles
    try:
        return _explore(_Search(bound), max_states, go_on)
    finally:
        gc.enable()


def _explore(search: _Search, max_states: int, go_on: Callable[[], bool]) -> Outcome:
    bound = search.bound
    first = first_state(bound)
    seen = {symmetry.key(first)}
    search.note(0, 0)
    queue: deque[tuple[int, int, State]] = deque([(0, 0, first)])
    depth = 0
    while queue:
        number, depth, state = queue.popleft()
        if len(seen) >= max_states or (number % 1000 == 0 and not go_on()):
            return search.outcome(depth, exhausted=False)
        for choice, move in enumerate(moves.moves(state, bound)):
            try:
                following = moves.after(state, move)
                check(state, following)
            except (Broken, AssertionError) as error:
                return search.broken(number, move, error)
            search.transitions += 1
            found = symmetry.key(following)
            if found not in seen and within(following, bound):
                seen.add(found)
                queue.append((search.note(number, choice), depth + 1, following))
    return search.outcome(depth, exhausted=True)


def within(state: State, bound: Bound) -> bool:
    return all(node.core.election.epoch <= bound.epochs for node in state.nodes)
