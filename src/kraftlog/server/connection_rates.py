"""`AcceptRates`: lets new connections wait, or holds them, while too many are made per second.

The settings may change while the node runs: `max.connection.creation.rate` of the node and of a
listener, and the quotas of addresses. The loop never waits: a listener is not accepted from, and a
throttled address gets no response until its socket is closed.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kraftlog.config.keys import listener_prefix
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kraftlog.node.node import Node
    from kraftlog.server.listening import ListeningSocket
    from kraftlog.types import Now

KEY = "max.connection.creation.rate"
#: The value that limits nothing, Kafka's default.
UNLIMITED = (1 << 31) - 1
#: The name of the node's own rate; listeners have names.
NODE = ""
#: The most sockets of throttled addresses that are held; beyond it the oldest is closed at once.
MAX_HELD = 256


class AcceptRates:
    """Decides for each new connection, with the rates that the node has counted."""

    def __init__(self, node: Callable[[], Node]) -> None:
        self._node = node
        #: Until when each listener that waits is not accepted from, by its descriptor.
        self._paused: dict[int, int] = {}
        #: Listeners of which one connection has waited, so that it is accepted at any rate.
        self._waited: set[int] = set()
        #: The sockets of throttled addresses: until when they are held, a number, the socket.
        self._held: list[tuple[int, int, socket.socket]] = []
        self._numbers = 0

    @property
    def held(self) -> int:
        """The number of sockets that are held."""
        return len(self._held)

    def is_paused(self, fd: int) -> bool:
        return fd in self._paused

    def pauses(self, listener: ListeningSocket, now: Now, *, counts_for_node: bool) -> bool:
        """Whether the next connection of a listener has to wait; the loop then stops accepting."""
        fd = listener.sock.fileno()
        if fd in self._waited:
            self._waited.discard(fd)
            return False
        limits = self._limits(listener, counts_for_node=counts_for_node)
        if not limits:
            return False
        wait_ms = self._node().client_quotas.connections.wait_ms(limits, now.monotonic_ms)
        if wait_ms:
            self._paused[fd] = now.monotonic_ms + wait_ms
            self._waited.add(fd)
        return wait_ms > 0

    def holds(self, sock: socket.socket, host: str, now: Now) -> bool:
        """Whether the socket of an address over its quota is held, and closed later."""
        wait_ms = self._node().client_quotas.address_wait_ms(host, now.monotonic_ms)
        if not wait_ms:
            return False
        self._numbers += 1
        heappush(self._held, (now.monotonic_ms + wait_ms, self._numbers, sock))
        if len(self._held) > MAX_HELD:
            heappop(self._held)[2].close()
        return True

    def accepted(self, listener: ListeningSocket, now: Now, *, counts_for_node: bool) -> None:
        limits = self._limits(listener, counts_for_node=counts_for_node)
        if limits:
            self._node().client_quotas.connections.accepted(limits, now.monotonic_ms)

    def _limits(self, listener: ListeningSocket, *, counts_for_node: bool) -> dict[str, float]:
        """The rates that limit a listener: its own, by default that of the node, and the node's."""
        if not listener.serves & BROKER:
            return {}
        layers = self._node().config_layers()
        of_node: int = layers.value(KEY)
        of_listener = of_node
        for value in layers.values_of([listener_prefix(listener.name) + KEY]):
            of_listener = int(value.value or of_node)
            break
        limits: dict[str, float] = {}
        if of_node < UNLIMITED and counts_for_node:
            limits[NODE] = of_node
        if of_listener < UNLIMITED:
            limits[listener.name] = of_listener
        return limits

    def expire(self, now: Now) -> list[int]:
        """Close the sockets that were held long enough.

        Returns the descriptors of the listeners that have waited long enough.
        """
        while self._held and self._held[0][0] <= now.monotonic_ms:
            heappop(self._held)[2].close()
        due = [fd for fd, until_ms in self._paused.items() if until_ms <= now.monotonic_ms]
        for fd in due:
            del self._paused[fd]
        return due

    def deadline(self) -> int | None:
        """When `expire` is due, in monotonic milliseconds."""
        dues = list(self._paused.values())
        if self._held:
            dues.append(self._held[0][0])
        return min(dues, default=None)

    def close(self) -> None:
        self._paused.clear()
        while self._held:
            self._held.pop()[2].close()
