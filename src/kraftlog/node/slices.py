"""Long work in slices over several turns, so that clients are served in between.

Work is a generator. Between two `yield`s it does a bounded amount of work, and it yields the cost
in units of about a microsecond. Costs are counted, not measured, so that a simulation is
deterministic. All sliced work of a turn shares one budget; when it is spent, unfinished work
continues in later turns, round robin.

The node runs long work of its own (deciding on and applying many records) and long work of
requests (`sliced`).
"""

from __future__ import annotations

from collections import deque

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Budget of all sliced work in a turn.
TURN_BUDGET = 2_000
#: The part of the budget that one piece of work may spend before the next.
SLICE_BUDGET = 500


class Work:
    """Unfinished work, as a generator. An exception in work of the node itself ends the node."""

    __slots__ = ("done", "is_cancelled", "steps")

    def __init__(self, steps: Iterator[int]) -> None:
        self.steps = steps
        self.done = False
        self.is_cancelled = False

    def cancel(self) -> None:
        """Drop the generator, which closes its open files."""
        self.is_cancelled = True
        self.steps = iter(())

    def advance(self, budget: int) -> int:
        """Run until the budget is used up or the work is done; returns the cost."""
        spent = 0
        try:
            while spent < budget:
                spent += next(self.steps)
        except StopIteration:
            self.done = True
        return spent


class Slices:
    """The budget of a turn for sliced work of the node itself and of requests.

    Both share the budget, with at least one step each. While work is left (`has_work`), the host
    begins the next turn without waiting for input.
    """

    def __init__(self) -> None:
        self.limit(TURN_BUDGET)
        self._own: deque[Work] = deque()
        #: Unfinished requests; only `SlicedRequests` has them.
        self._waiting: deque[Any] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._own or self._waiting)

    def limit(self, turn_budget: int) -> None:
        """Set the budget of each turn."""
        self.turn_budget = self._budget_left = turn_budget
        self.slice_budget = min(turn_budget, SLICE_BUDGET)

    def begin(self, steps: Iterator[int]) -> Work:
        """Begin work of the node itself; runs one slice of it at once, whatever budget is left.

        Work that is alone may use all that is left.
        """
        work = Work(steps)
        is_alone = not self.has_work and self._budget_left > self.slice_budget
        self._budget_left -= work.advance(self._budget_left if is_alone else self.slice_budget)
        if not work.done:
            self._own.append(work)
            self._request_poll()
        return work

    def finish_turn(self) -> bool:
        """Spend the rest of the turn's budget, at least one step of each kind.

        Returns whether any work was done.
        """
        if not self.has_work:
            self._budget_left = self.turn_budget
            return False
        has_own = bool(self._own)  # its results may be due at once
        while True:
            if self._own:
                self._continue_own()
            if self._waiting:
                self._continue_request()
            if self._budget_left <= 0 or not self.has_work:
                break
        self._budget_left = self.turn_budget
        if has_own or self.has_work:
            self._request_poll()
        return True

    def _next_slice_budget(self) -> int:
        return max(min(self._budget_left, self.slice_budget), 1)

    def _continue_own(self) -> None:
        work = self._own.popleft()
        if work.is_cancelled:
            return
        self._budget_left -= work.advance(self._next_slice_budget())
        if not work.done:
            self._own.append(work)

    def _continue_request(self) -> None:
        """Continue a sliced request; see `SlicedRequests`."""

    def _request_poll(self) -> None:
        """Request a poll in the next turn."""
