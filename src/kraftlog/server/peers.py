"""Sockets to other nodes, for the conversations of `runner.peers`."""

from __future__ import annotations

import errno
import select
import socket

from kraftlog.runner.peers import MOST_PROBES, Line, PeerLines
from kraftlog.server.names import Names, numeric
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.server.names import Place
    from kraftlog.types import Now

__all__ = ["MOST_PROBES", "Peers"]

READ_SIZE = 256 << 10
#: Ports come from settings, and from what other nodes say of each other.
LAST_PORT = 65535
_BUSY = {0, errno.EAGAIN, errno.EINPROGRESS}


class SocketLine(Line):
    """A line, and the socket that carries it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        super().__init__(name, peer, address)
        self.sock: socket.socket | None = None
        self.fd = -1
        self.events = 0
        #: Where it was met last: there a connection that has ended is tried again.
        self.met: Place | None = None
        #: Where else to look, if it is not at the place that is being tried.
        self.places: list[Place] = []
        self.is_searching = False

    @property
    def is_open(self) -> bool:
        return self.sock is not None

    def forget_place(self) -> None:
        self.met = None


class Peers(PeerLines):
    """All lines of a node, on the epoll of its loop."""

    line_type = SocketLine

    def __init__(self, epoll: select.epoll, tell: Callable[[Any, Now], None]) -> None:
        super().__init__(tell)
        self._epoll = epoll
        #: Whatever comes is received here first: allocating so much each time would cost more.
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._names = Names()
        epoll.register(self._names.ready_fd, select.EPOLLIN)
        self._by_fd: dict[int, SocketLine] = {}

    def owns(self, fd: int) -> bool:
        return fd in self._by_fd or fd == self._names.ready_fd

    def close(self) -> None:
        for line in list(self._by_fd.values()):
            self._disconnect(line)
        self._names.close()

    def event(self, fd: int, event: int, now: Now) -> None:
        if fd == self._names.ready_fd:
            self._names.deliver(now)
            return
        line = self._by_fd[fd]
        if not line.is_connected:
            self._connected(line, now)
        elif event & select.EPOLLIN:
            self._receive(line, now)
        elif event & (select.EPOLLERR | select.EPOLLHUP):
            self.lost(line, now)
        elif event & select.EPOLLOUT:
            self._flush(line, now)

    # Connecting ----------------------------------------------------------------------------------

    def _connect(self, line: SocketLine, now: Now) -> None:
        """Where it was met last, or else wherever its name leads to."""
        address = line.address
        place = line.met or numeric(*address)
        if not 0 < address[1] <= LAST_PORT:
            self._found(line, [], now)
        elif place is not None:
            self._try(line, place, now)
        elif not line.is_searching:
            line.is_searching = True

            def found(places: list[Place], now: Now) -> None:
                line.is_searching = False
                if line.address == address and line.sock is None:
                    self._found(line, places, now)
                elif line.asked and line.sock is None:
                    self._connect(line, now)

            self._names.find(*address, found)

    def _found(self, line: SocketLine, places: list[Place], now: Now) -> None:
        """An address that leads nowhere says nothing about who has it."""
        if not places:
            self.lost(line, now, probe=False)
        elif line.asked:
            line.has_ended = False  # the name may lead elsewhere now, where nobody has answered yet
            line.places = places[1:]
            self._try(line, places[0], now)

    def _try(self, line: SocketLine, place: Place, now: Now) -> None:
        family, address = place
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as why:  # no descriptor is left, or this family is not known here
            self._failed(line, why.errno or errno.EMFILE, now)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sock, line.fd, line.is_connected = sock, sock.fileno(), False
        line.met = place
        error = sock.connect_ex(address)
        self._by_fd[line.fd] = line
        line.events = select.EPOLLIN | select.EPOLLOUT
        self._epoll.register(line.fd, line.events)
        if error not in _BUSY:
            self._failed(line, error, now)

    def _connected(self, line: SocketLine, now: Now) -> None:
        assert line.sock is not None
        error = line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._failed(line, error, now)
            return
        line.places.clear()
        self.connected(line, now)

    def _failed(self, line: SocketLine, error: int, now: Now) -> None:
        if line.places:
            self._close(line)
            self._try(line, line.places.pop(0), now)
            return
        self.connect_failed(
            line, now, refused=error == errno.ECONNREFUSED, reset=error == errno.ECONNRESET
        )

    # Bytes ---------------------------------------------------------------------------------------

    def _flush(self, line: SocketLine, now: Now) -> None:
        assert line.sock is not None
        if not line.is_connected:
            return
        try:
            if line.out:
                del line.out[: line.sock.send(line.out)]
        except BlockingIOError:
            pass
        except OSError:
            self.lost(line, now)
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if line.out else 0)
        if wanted != line.events:
            line.events = wanted
            self._epoll.modify(line.fd, wanted)

    def _receive(self, line: SocketLine, now: Now) -> None:
        assert line.sock is not None
        try:
            size = line.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        self.receive(line, self._buffer[:size], now)

    def _close(self, line: SocketLine) -> None:
        if line.sock is not None:
            self._by_fd.pop(line.fd, None)
            self._epoll.unregister(line.fd)
            line.sock.close()
        line.sock, line.fd, line.is_connected = None, -1, False

    def _disconnect(self, line: Line) -> None:
        super()._disconnect(line)
        assert isinstance(line, SocketLine)
        line.places.clear()
