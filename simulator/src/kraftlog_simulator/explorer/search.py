"""Breadth-first search through all states within a bound."""

from __future__ import annotations

import gc
from array import array
from collections import deque

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.invariants import Broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Protocol

    State = tuple[int, ...]
    Move = tuple[str, int, Any]

    class Space(Protocol):
        """The states of a bound, and their moves."""

        #: How many states a search may visit.
        max_states: int
        first: State

        def moves(self, state: State) -> Sequence[Move]: ...
        def after(self, state: State, move: Move) -> State: ...
        def key(self, state: State) -> bytes: ...

        def check(self, state: State) -> None:
            """Raise Broken if the state breaks an invariant."""
            ...

        def is_within(self, state: State) -> bool: ...

        def trace_lines(self, path: Sequence[Move], broken: str) -> Iterator[str]:
            """The moves as text."""
            ...


#: How many states are visited from one call of `may_continue` to the next.
CHECK_LIMIT_EVERY = 1000


class Outcome(Value):
    """The result of a search; `exhausted` if every state was visited, `depth` in moves."""

    states: int
    transitions: int
    depth: int
    exhausted: bool
    broken: str = ""
    #: The shortest path to the violation, one line per move.
    trace: tuple[str, ...] = ()


class _Search:
    """The states found so far, and how each was reached.

    A state's number is its position in the order of visits, which is the order of finding.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        #: The keys of all states found so far.
        self.seen: set[bytes] = set()
        self.queue: deque[State] = deque()
        #: For each state the number of its predecessor, and the index of the move between them.
        self.predecessor = array("I")
        self.choice = array("B")
        self.depth = 0
        self.transitions = 0

    def add(self, state: State, key: bytes, predecessor: int, choice: int) -> None:
        self.seen.add(key)
        self.queue.append(state)
        self.predecessor.append(predecessor)
        self.choice.append(choice)

    def path_to(self, number: int) -> list[Move]:
        """The moves from the first state, recomputed, as storing them all takes much memory."""
        choices = []
        while number:
            choices.append(self.choice[number])
            number = self.predecessor[number]
        state, path = self.space.first, []
        for choice in reversed(choices):
            path.append(self.space.moves(state)[choice])
            state = self.space.after(state, path[-1])
        return path

    def outcome(self, *, exhausted: bool) -> Outcome:
        return Outcome(len(self.predecessor), self.transitions, self.depth, exhausted)

    def broken(self, number: int, last: Move, error: Exception) -> Outcome:
        path = [*self.path_to(number), last]
        what = str(error) or type(error).__name__
        outcome = self.outcome(exhausted=False)
        trace = tuple(self.space.trace_lines(path, what))
        return outcome.replace(broken=what, depth=len(path), trace=trace)


def explore(space: Space, may_continue: Callable[[], bool] = lambda: True) -> Outcome:
    """Search until all states are visited, an invariant is broken, or a limit is reached."""
    gc.disable()  # nothing here has reference cycles
    try:
        return _explore(_Search(space), space.max_states, may_continue)
    finally:
        gc.enable()


def _explore(search: _Search, max_states: int, may_continue: Callable[[], bool]) -> Outcome:
    space, seen, queue = search.space, search.seen, search.queue
    key_of = space.key
    search.add(space.first, key_of(space.first), 0, 0)
    last_of_depth = 0
    number = -1
    while queue:
        state = queue.popleft()
        number += 1
        if number > last_of_depth:
            search.depth += 1
            last_of_depth = len(search.predecessor) - 1
        if len(seen) >= max_states or (number % CHECK_LIMIT_EVERY == 0 and not may_continue()):
            return search.outcome(exhausted=False)
        for choice, move in enumerate(space.moves(state)):
            try:
                next_state = space.after(state, move)
                key = key_of(next_state)
                is_new = key not in seen
                if is_new:
                    space.check(next_state)
            except (Broken, AssertionError) as error:
                return search.broken(number, move, error)
            search.transitions += 1
            if is_new and space.is_within(next_state):
                search.add(next_state, key, number, choice)
    return search.outcome(exhausted=True)
