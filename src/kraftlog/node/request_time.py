"""`RequestTime`: the time that the loop spends on one request, for the quotas of clients.

It is measured only while there is a `request_percentage`: from its header on while its handler and
its slices run. Waiting costs nothing, whether for other requests, records or the disk.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BETWEEN_NODES, CONTROLLER, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.pending_response import PendingResponse


def is_exempt(pending: PendingResponse) -> bool:
    """Whether a request is of another node; a follower's Fetch is found by its replica id."""
    assert pending.api is not None
    if pending.api.key == ApiKey.FETCH:
        return bool(pending.connection.serves & CONTROLLER)
    return pending.api.key in BETWEEN_NODES


class RequestTime:
    """Runs while the loop works on the request; the client is throttled with its response."""

    __slots__ = ("_began_ns", "_pending", "_record", "_spent_ns", "_stopwatch_ns", "_throttle")

    def __init__(
        self,
        pending: PendingResponse,
        stopwatch_ns: Callable[[], int],
        record: Callable[[PendingResponse, int], int],
        throttle: Callable[[PendingResponse, int], int],
    ) -> None:
        """`record` counts nanoseconds and returns how long to throttle; `throttle` does it."""
        self._pending, self._stopwatch_ns = pending, stopwatch_ns
        self._record, self._throttle = record, throttle
        self._spent_ns = 0
        #: When the loop began to work on the request; None: it does not.
        self._began_ns: int | None = stopwatch_ns()

    def resume(self) -> bool:
        """The loop works on the request again; whether it did not already."""
        if self._began_ns is not None:
            return False
        self._began_ns = self._stopwatch_ns()
        return True

    def pause(self) -> None:
        """The loop goes on with something else; after the response this is the encoding."""
        self._stop()
        if self._pending.pieces is not None and self._spent_ns:
            self._record(self._pending, self._take())

    def throttled(self, response: Any) -> Any:
        """The response, with its `throttle_time_ms` if the client is over its quota."""
        was_running = self._began_ns is not None
        self._stop()
        throttle_ms = self._record(self._pending, self._take())
        if was_running:
            self.resume()
        if not throttle_ms:
            return response
        self._throttle(self._pending, throttle_ms)
        if throttle_ms <= getattr(response, "throttle_time_ms", throttle_ms):
            return response
        return response.replace(throttle_time_ms=throttle_ms)  # it may be a cached one

    def _stop(self) -> None:
        if self._began_ns is not None:
            self._spent_ns += self._stopwatch_ns() - self._began_ns
            self._began_ns = None

    def _take(self) -> int:
        spent_ns, self._spent_ns = self._spent_ns, 0
        return spent_ns
