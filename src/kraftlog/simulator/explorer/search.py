"""Breadth first through all states within a bound."""

from __future__ import annotations

import gc
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
    """How each state was reached: by which move from which earlier state."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.ways: list[tuple[int, moves.Move]] = []
        self.transitions = 0

    def way_to(self, number: int) -> list[moves.Move]:
        way = []
        while number:
            number, move = self.ways[number]
            way.append(move)
        return way[::-1]

    def outcome(self, depth: int, *, exhausted: bool) -> Outcome:
        return Outcome(len(self.ways), self.transitions, depth, exhausted)

    def broken(self, number: int, last: moves.Move, error: Exception) -> Outcome:
        way = [*self.way_to(number), last]
        what = str(error) or type(error).__name__
        found = self.outcome(len(way), exhausted=False)
        return found.replace(broken=what, scenario=tuple(tell.scenario(self.bound, way, what)))


def explore(
    bound: Bound, max_states: int, go_on: Callable[[], bool] = lambda: True
) -> Outcome:
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
    search.ways.append((0, ()))
    queue: deque[tuple[int, int, State]] = deque([(0, 0, first)])
    depth = 0
    while queue:
        number, depth, state = queue.popleft()
        if len(seen) >= max_states or (number % 1000 == 0 and not go_on()):
            return search.outcome(depth, exhausted=False)
        for move in moves.moves(state, bound):
            try:
                following = moves.after(state, move)
                check(state, following)
            except (Broken, AssertionError) as error:
                return search.broken(number, move, error)
            search.transitions += 1
            found = symmetry.key(following)
            if found not in seen and within(following, bound):
                seen.add(found)
                queue.append((len(search.ways), depth + 1, following))
                search.ways.append((number, move))
    return search.outcome(depth, exhausted=True)


def within(state: State, bound: Bound) -> bool:
    return all(node.core.election.epoch <= bound.epochs for node in state.nodes)
