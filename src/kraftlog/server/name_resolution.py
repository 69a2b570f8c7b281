"""Where a host is: names are looked up beside the loop, as the answer may be long in coming."""

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

    #: A family of addresses, and host and port as `connect` takes them.
    Place = tuple[int, tuple[str, int]]
    Found = Callable[[list[Place], Now], None]


def numeric(host: str, port: int) -> Place | None:
    """The place of a host that is an address already, of either family; None: it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family, (host, port)
    return None


class NameResolver:
    """A thread for each name that is looked for: they are few, and one must not hold up another.

    Threads that are still waiting when the process ends, end with it. Where the system has no room
    for one the name is not found; whoever looks for it asks again.
    """

    def __init__(self) -> None:
        self.ready_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        #: Held by whoever wakes the loop, or ends: a descriptor that is closed may be another's.
        self._waking = allocate_lock()
        self._found: deque[tuple[Found, list[Place]]] = deque()
        self._logged_no_room = False

    def find(self, host: str, port: int, found: Found) -> None:
        """Call `found` on the loop with all places of a host; with none if nobody knows it."""
        import threading

        thread = threading.Thread(
            target=self._look_up, args=(host, port, found), name=f"find {host}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._notify(found, [])
            if not self._logged_no_room:
                log_line(f"cannot resolve {host}: {error}")
        self._logged_no_room = not thread.ident

    def _look_up(self, host: str, port: int, found: Found) -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            infos = []
        places: list[Place] = [(family, (str(at[0]), int(at[1]))) for family, *_, at in infos]
        self._notify(found, places)

    def _notify(self, found: Found, places: list[Place]) -> None:
        """From any thread: have it told on the loop."""
        self._found.append((found, places))
        with self._waking:
            if self.ready_fd >= 0:
                os.eventfd_write(self.ready_fd, 1)

    def deliver(self, now: Now) -> None:
        """On the loop: tell what has been found since."""
        try:
            os.eventfd_read(self.ready_fd)
        except BlockingIOError:
            return
        while self._found:
            found, places = self._found.popleft()
            found(places, now)

    def close(self) -> None:
        """Nobody is told any more; who is still looking ends unheard."""
        with self._waking:
            os.close(self.ready_fd)
            self.ready_fd = -1
