"""Resolves host names on threads, because a lookup may take long."""

from __future__ import annotations

import os
import socket
from _thread import allocate_lock
from collections import deque

from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Now

    #: An address family, and the address for `connect`.
    SocketAddress = tuple[int, tuple[str, int]]
    OnResolved = Callable[[list[SocketAddress], Now], None]


def numeric_address(host: str, port: int) -> SocketAddress | None:
    """The socket address of a host that is an IP address; None for a host name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family, (host, port)
    return None


class NameResolver:
    """Resolves each name on a thread of its own, so that none delays another.

    The threads end with the process. If the system cannot start a thread, the lookup fails and the
    caller retries.
    """

    def __init__(self) -> None:
        self.ready_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        #: Guards the eventfd, which a lookup may write to while the loop closes it.
        self._waking = allocate_lock()
        self._results: deque[tuple[OnResolved, list[SocketAddress]]] = deque()
        self._logged_failure = False

    def resolve(self, host: str, port: int, on_resolved: OnResolved) -> None:
        """Call `on_resolved` on the loop with all addresses of a host; none if it is unknown."""
        import threading

        thread = threading.Thread(
            target=self._look_up, args=(host, port, on_resolved), name=f"find {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._notify(on_resolved, [])
            if not self._logged_failure:
                log_line(f"cannot resolve {host}: {error}")
        self._logged_failure = not thread.ident  # a thread that did not start has no id

    def _look_up(self, host: str, port: int, on_resolved: OnResolved) -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            infos = []
        addresses: list[SocketAddress] = [
            (family, (str(address[0]), int(address[1]))) for family, *_, address in infos
        ]
        self._notify(on_resolved, addresses)

    def _notify(self, on_resolved: OnResolved, addresses: list[SocketAddress]) -> None:
        """From any thread: deliver a result on the loop."""
        self._results.append((on_resolved, addresses))
        with self._waking:
            if self.ready_fd >= 0:
                os.eventfd_write(self.ready_fd, 1)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        try:
            os.eventfd_read(self.ready_fd)
        except BlockingIOError:
            return
        while self._results:
            on_resolved, addresses = self._results.popleft()
            on_resolved(addresses, now)

    def close(self) -> None:
        """Deliver no more results; pending lookups are abandoned."""
        with self._waking:
            os.close(self.ready_fd)
            self.ready_fd = -1
