"""`ConnectionLimits`: limits connections, in total and by address, and their idle time.

The settings are Kafka's and may change while the node runs: `max.connections`,
`max.connections.per.ip` and its overrides, `connections.max.idle.ms`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.server.connections import Connection

#: Closed connections are removed from the queue of idle checks at this many entries, or at twice
#: the number of connections if that is more.
MIN_COMPACTED = 1024


class ConnectionLimits:
    """Counts open connections; `value` returns the current value of a broker setting."""

    def __init__(self, value: Callable[[str], Any]) -> None:
        self._value = value
        #: Connections to broker listeners: in total, and by address.
        self._count = 0
        self._by_host: dict[str, int] = {}
        #: When to check whether a connection is idle; the entry's number orders equal times.
        self._due: list[tuple[int, int, Connection]] = []
        #: The number of the last entry.
        self._entries = 0
        #: The last text of the overrides, and the parsed value.
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether connections to broker listeners have reached `max.connections`."""
        limit: int = self._value("max.connections")
        return self._count >= limit

    def refusal(self, host: str) -> str | None:
        """The reason to refuse a connection from an address, or None."""
        limit = self._limit_for(host)
        if self._by_host.get(host, 0) < limit:
            return None
        return f"{host} has reached max.connections.per.ip ({limit})"

    def opened(self, connection: Connection) -> None:
        if connection.serves & BROKER:
            host = connection.host
            self._by_host[host] = self._by_host.get(host, 0) + 1
            self._count += 1
        idle_ns = self._idle_ns()
        if idle_ns >= 0:
            self._check_at(connection, connection.active_ns + idle_ns)

    def closed(self, connection: Connection) -> None:
        if not connection.serves & BROKER:
            return
        self._count -= 1
        left = self._by_host.get(connection.host, 0) - 1
        if left > 0:
            self._by_host[connection.host] = left
        else:
            self._by_host.pop(connection.host, None)

    def idle(self, now_ns: int, max_connections: int) -> list[Connection]:
        """Up to `max_connections` connections that have been idle for `connections.max.idle.ms`."""
        idle_ns = self._idle_ns()
        idle: list[Connection] = []
        while self._due and self._due[0][0] <= now_ns and len(idle) < max_connections:
            connection = heappop(self._due)[2]
            if connection.closed or idle_ns < 0:
                continue
            at_ns = connection.active_ns + idle_ns
            if at_ns <= now_ns:
                idle.append(connection)
            else:
                self._check_at(connection, at_ns)
        return idle

    def _check_at(self, connection: Connection, at_ns: int) -> None:
        if len(self._due) >= max(MIN_COMPACTED, 2 * self._count):
            self._due = [entry for entry in self._due if not entry[2].closed]
            heapify(self._due)
        self._entries += 1
        heappush(self._due, (at_ns, self._entries, connection))

    def _idle_ns(self) -> int:
        idle_ms: int = self._value("connections.max.idle.ms")
        return idle_ms * 1_000_000

    def _limit_for(self, host: str) -> int:
        text: str = self._value("max.connections.per.ip.overrides") or ""
        if text != self._overrides_text:
            self._overrides_text, self._overrides = text, parse_overrides(text)
        limit: int = self._value("max.connections.per.ip")
        return self._overrides.get(host, limit)


def parse_overrides(text: str) -> dict[str, int]:
    """Parse `address:number` pairs; IPv6 addresses may be in brackets."""
    limits = {}
    for entry in text.split(","):
        host, _, number = entry.strip().rpartition(":")
        if host:
            limits[host.strip("[]")] = int(number)
    return limits
