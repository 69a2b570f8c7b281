"""`DelayedOperations`: requests that wait, each with a deadline."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.types import Now

    class DelayedOperation(Protocol):
        """A request that waits: `done` before its deadline, or expired at it."""

        @property
        def pending(self) -> Any: ...
        @property
        def done(self) -> bool: ...
        def expire(self, now: Now) -> None: ...


#: Operations that are done are removed before their deadline only if at least this many wait.
MIN_CLEANUP_SIZE = 1024


class DelayedOperations(Part):
    """Calls `fail(pending, error)` for an operation whose `expire` raises."""

    def __init__(self, fail: Callable[[Any, Exception], None]) -> None:
        self._fail = fail
        #: Deadline, sequence number, operation.
        self._waiting: list[tuple[int, int, DelayedOperation]] = []
        self._sequence = 0
        self._clean_up_at = MIN_CLEANUP_SIZE

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, operation: DelayedOperation, deadline_ms: int) -> None:
        """Call `operation.expire` at the deadline, unless it is done before."""
        if len(self._waiting) >= self._clean_up_at:
            # Operations that are done stay until their deadline, which may be weeks ahead.
            self._waiting = [entry for entry in self._waiting if not entry[2].done]
            heapify(self._waiting)
            self._clean_up_at = max(2 * len(self._waiting), MIN_CLEANUP_SIZE)
        self._sequence += 1
        heappush(self._waiting, (deadline_ms, self._sequence, operation))

    def poll(self, now: Now) -> None:
        """Expire the operations whose deadline has passed."""
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            operation = heappop(self._waiting)[2]
            try:
                operation.expire(now)
            except Exception as error:
                self._fail(operation.pending, error)

    def deadline(self) -> int | None:
        """The next deadline, in monotonic milliseconds."""
        waiting = self._waiting
        while waiting and waiting[0][2].done:
            heappop(waiting)
        return waiting[0][0] if waiting else None
