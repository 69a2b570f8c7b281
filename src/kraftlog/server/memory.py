"""`ClientMemory`: limits the memory of requests and responses of all connections.

A connection accounts for received bytes, requests in progress and unsent responses; file slices are
not memory. At the limit, connections that use more than a small request are not read until others
release memory. A small request of a connection that uses less is always served. One waiting
connection at a time is exempt for one request; otherwise connections with incomplete large requests
would wait for each other. Apart from small requests, the limit is exceeded by at most the request
and the response of the exempt connection.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.server.connections import Connection

#: The limit if `queued.max.request.bytes` is -1.
DEFAULT_LIMIT = 128 << 20
#: A connection that uses no more than this is always read.
ALWAYS_READ_BYTES = 64 << 10
#: While connections wait for memory, connections that use some and have been idle for IDLE_MS are
#: closed, longest idle first, until 1/FREED_SHARE of the limit is free, so that dead or malicious
#: clients cannot block others for ever.
IDLE_MS = 30_000
FREED_SHARE = 4
#: Freed memory is returned to the system once usage has fallen by this much.
MIN_TRIM_BYTES = 16 << 20


class ClientMemory:
    """The memory account of all connections, and those that wait while the limit is reached."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.used = 0
        #: The highest usage since memory was last returned.
        self.peak = 0
        #: Connections that are not read until memory is free, in the order of waiting.
        self.waiting: dict[Connection, None] = {}
        #: The connection that is read although there is no room, and whether a request of it has
        #: been passed to the node since.
        self.exempt: Connection | None = None
        self.is_exempt_served = False

    def change(self, by_bytes: int) -> None:
        self.used += by_bytes
        self.peak = max(self.peak, self.used)
        if self.waiting and self.used < self.limit:
            self._wake()

    def wait(self, connection: Connection) -> None:
        """Make a connection wait.

        If no connection is exempt, exempt the first waiting one that is receiving a large request
        or holds unserved requests.
        """
        if self.exempt is not connection:
            self.waiting[connection] = None
            if self.exempt is None:
                self._exempt_next()

    def served(self, connection: Connection) -> None:
        """Note that a connection has passed a request to the node, if it is the exempt one."""
        if connection is self.exempt:
            self.is_exempt_served = True

    def end_exemption(self) -> None:
        """End the exemption of a connection that has released its memory or is closed."""
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
        """Whether the limit is reached once `more` bytes are used."""
        return self.used + more >= self.limit

    @property
    def is_low(self) -> bool:
        """Whether too little memory is free for the waiting connections."""
        return self.used > self.limit - self.limit // FREED_SHARE

    @property
    def is_due(self) -> bool:
        """Whether connections should be closed or memory returned."""
        return bool(self.waiting) or self.peak - self.used >= MIN_TRIM_BYTES

    def trim(self) -> None:
        """Return freed memory to the system, if there is much of it.

        The C library keeps freed memory below blocks in use, and Python allocates every buffer of
        more than 512 bytes with it.
        """
        if self.peak - self.used < MIN_TRIM_BYTES:
            return
        self.peak = self.used
        import ctypes

        trim = getattr(
            ctypes.CDLL(None), "malloc_trim", None
        )  # glibc only; other C libraries trim automatically
        if trim is not None:
            trim(0)


def limit_of(queued_max_request_bytes: int) -> int:
    return queued_max_request_bytes if queued_max_request_bytes > 0 else DEFAULT_LIMIT
