"""`ClientMemory`: what all connections together hold of requests and responses, and its bound.

A connection holds what it has received and not handed over, the requests that the node works on,
and the responses that its client has not taken; slices of files are not memory. Where the bound is
reached, connections that hold more than a small request are not read until others have let go.
A small request of a connection that holds less is always served. Of those that wait, one at a time
is exempt from the bound for one request: or connections whose large requests have come in part
would wait for each other. The bound is exceeded by no more than its request and response.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.server.connections import Connection

#: The bound where `queued.max.request.bytes` is -1.
DEFAULT_LIMIT = 128 << 20
#: A connection that holds no more than this is read in any case.
FREE = 64 << 10
#: While connections wait for room, those that hold some and have neither sent nor received anything
#: for this long are closed, the longest first, until so much of the bound is free again: clients
#: that are gone, or mean it, can't keep others waiting for ever.
STILL_MS = 30_000
FREED_SHARE = 4
#: Freed memory goes back to the system once this much less is held than before.
TRIMMED_FROM = 16 << 20


class ClientMemory:
    """Connections add and take off what they hold, and wait in `waiting` while there is no room."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.used = 0
        #: The most that was held since memory was last given back.
        self.peak = 0
        #: Connections that are not read until there is room again, the first to wait first.
        self.waiting: dict[Connection, None] = {}
        #: The connection that is read although there is no room, and whether a request of it has
        #: been handed over since.
        self.exempt: Connection | None = None
        self.is_exempt_served = False

    def change(self, by: int) -> None:
        self.used += by
        self.peak = max(self.peak, self.used)
        if self.waiting and self.used < self.limit:
            self._wake()

    def wait(self, connection: Connection) -> None:
        """There is no room for it; the first that has requests to go on with is exempt."""
        if self.exempt is not connection:
            self.waiting[connection] = None
            if self.exempt is None:
                self._exempt_next()

    def served(self, connection: Connection) -> None:
        """A large request is handed over, or one of many that had come."""
        if connection is self.exempt:
            self.is_exempt_served = True

    def end_exemption(self) -> None:
        """The exempt connection has let go, or is closed: another one is next."""
        self.exempt = None
        self._exempt_next()

    def _exempt_next(self) -> None:
        for connection in self.waiting:
            if connection.large is not None or connection.holds_frames:
                del self.waiting[connection]
                self.exempt, self.is_exempt_served = connection, False
                connection.mark_dirty()
                return

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for connection in waiting:
            connection.mark_dirty()

    def lacks(self, more: int) -> bool:
        """Whether there is no room for so many bytes more."""
        return self.used + more >= self.limit

    @property
    def is_short(self) -> bool:
        """Whether too little is free for connections that wait."""
        return self.used > self.limit - self.limit // FREED_SHARE

    @property
    def is_due(self) -> bool:
        """Whether there is something to see to: connections to close, or memory to give back."""
        return bool(self.waiting) or self.peak - self.used >= TRIMMED_FROM

    def trim(self) -> None:
        """Give freed memory back to the system, if it is much.

        The C library keeps what was freed below something that is still in use; Python asks it for
        every buffer that is larger than half a kilobyte.
        """
        if self.peak - self.used < TRIMMED_FROM:
            return
        self.peak = self.used
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others do it themselves
        if trim is not None:
            trim(0)


def limit_of(queued_max_request_bytes: int) -> int:
    return queued_max_request_bytes if queued_max_request_bytes > 0 else DEFAULT_LIMIT
