"""`DelayedOperations`: requests that wait for something, and until when."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.types import Now

    class DelayedOperation(Protocol):
        """Waits for something that may come before its time is over: then it is `done`."""

        @property
        def slot(self) -> Any: ...
        @property
        def done(self) -> bool: ...
        def expire(self, now: Now) -> None: ...


#: So many waiting requests are not worth looking through for those that are done.
WAITING_UNTIDIED = 1024


class DelayedOperations:
    """`fail(slot, error)` is what it costs whoever waits when `expire` goes wrong."""

    def __init__(self, fail: Callable[[Any, Exception], None]) -> None:
        self._fail = fail
        #: Deadline, number, what waits.
        self._waiting: list[tuple[int, int, DelayedOperation]] = []
        self._numbers = 0
        self._tidy_at = WAITING_UNTIDIED

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, operation: DelayedOperation, deadline_ms: int) -> None:
        """Have `operation.expire` called then, unless it is done before."""
        if len(self._waiting) >= self._tidy_at:
            # Those that are done lie about until their time comes, which may be weeks.
            self._waiting = [entry for entry in self._waiting if not entry[2].done]
            heapify(self._waiting)
            self._tidy_at = max(2 * len(self._waiting), WAITING_UNTIDIED)
        self._numbers += 1
        heappush(self._waiting, (deadline_ms, self._numbers, operation))

    def poll(self, now: Now) -> None:
        """Those whose time is over hear of it."""
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            operation = heappop(self._waiting)[2]
            try:
                operation.expire(now)
            except Exception as error:
                self._fail(operation.slot, error)

    def deadline(self) -> int | None:
        """When the first of them has waited for long enough, in monotonic milliseconds."""
        waiting = self._waiting
        while waiting and waiting[0][2].done:
            heappop(waiting)
        return waiting[0][0] if waiting else None
