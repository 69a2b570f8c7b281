"""Connections to other nodes: requests out, answers in, told to the node as reports.

A line to a peer is one connection, opened when the first request is sent. It begins with the
question which versions the peer knows; what is asked waits for that answer, and leaves in the
newest version that both know. A request without an answer in time ends its connection, as nobody
could say to which request a late answer belongs. A connection that ends is tried again at once,
once: when that is refused, the peer's process is gone.
"""

from __future__ import annotations

import select
import socket
import struct

from kraftlog.effects import PeerAnswered, PeerSilent, PeerUnaware, PeerVanished
from kraftlog.errors import ProtocolError, UnsupportedVersionError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.primitives import Malformed, skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import Ask
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

READ_SIZE = 256 << 10
MAX_FRAME = 100 << 20
CLIENT_ID = "kraftlog"
#: The correlation id and version of the question which versions a peer knows: it knows this one.
FIRST_QUESTION, ASKED_PLAINLY = 0, 0

_LENGTH_AND_CORRELATION = struct.Struct(">ii")
_BUSY = {0, 11, 115}  # no error, EAGAIN, EINPROGRESS


class Line:
    """One connection and what was asked on it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        self.name = name
        self.peer = peer
        self.address = address
        self.sock: socket.socket | None = None
        self.fd = -1
        self.is_connected = False
        #: A connection has ended, and none has been made since.
        self.has_ended = False
        self.out = bytearray()
        self.received = bytearray()
        #: What waits for an answer by its correlation id, and when that is overdue.
        self.asked: dict[int, tuple[Ask, int]] = {}
        #: The versions that the peer knows of each API: (first, last). None: it has not said yet.
        self.known: dict[int, tuple[int, int]] | None = None
        #: The version in which each of `asked` was said; what is not here waits for `known`.
        self.said: dict[int, int] = {}


class Peers:
    """All lines of a node. `tell` gets the reports; `now_ms` reads the monotonic clock."""

    def __init__(self, epoll: select.epoll, tell: Callable[[Any, Now], None]) -> None:
        self._epoll = epoll
        self._tell = tell
        self._lines: dict[tuple[str, int], Line] = {}
        self._by_fd: dict[int, Line] = {}
        self._correlation = 0
        #: For whoever watches: what has gone over all lines since the start.
        self.requests = self.responses = self.bytes_in = self.bytes_out = 0
        #: What was asked in this turn: sent, and deadlines counted, when the turn ends.
        self._new: list[Ask] = []

    def ask(self, ask: Ask) -> None:
        self._new.append(ask)

    def owns(self, fd: int) -> bool:
        return fd in self._by_fd

    def deadline(self) -> int | None:
        """When the first answer is overdue."""
        return min(
            [at for line in self._lines.values() for _, at in line.asked.values()], default=None
        )

    def close(self) -> None:
        for line in list(self._by_fd.values()):
            self._disconnect(line)

    # Turns ---------------------------------------------------------------------------------------

    def send(self, now: Now) -> None:
        """At the end of a turn: what was asked leaves."""
        asks, self._new = self._new, []
        for ask in asks:
            line = self._line(ask, now)
            if ask.fresh and line.asked:
                self._lost(line, now, probe=False)
            self._enqueue(line, ask, now)
            if line.sock is None:
                self._connect(line, now)
            else:
                self._flush(line, now)

    def expire(self, now: Now) -> None:
        """End the connections of those whose answers are overdue."""
        for line in list(self._lines.values()):
            if any(at <= now.monotonic_ms for _, at in line.asked.values()):
                self._lost(line, now, probe=False)

    def event(self, fd: int, event: int, now: Now) -> None:
        line = self._by_fd[fd]
        if not line.is_connected:
            self._connected(line, now)
        elif event & select.EPOLLIN:
            self._receive(line, now)
        elif event & (select.EPOLLERR | select.EPOLLHUP):
            self._lost(line, now)
        elif event & select.EPOLLOUT:
            self._flush(line, now)

    # Asking --------------------------------------------------------------------------------------

    def _line(self, ask: Ask, now: Now) -> Line:
        key = ask.line, ask.peer
        line = self._lines.get(key)
        address = ask.host, ask.port
        if line is None:
            line = self._lines[key] = Line(ask.line, ask.peer, address)
        elif line.address != address:
            self._lost(line, now, probe=False)
            line.address, line.has_ended = address, False
        return line

    def _enqueue(self, line: Line, ask: Ask, now: Now) -> None:
        self._correlation = (self._correlation & 0x3FFFFFFF) + 1
        line.asked[self._correlation] = ask, now.monotonic_ms + ask.timeout_ms
        if line.known is not None:
            self._say(line, self._correlation, ask, now)

    def _say(self, line: Line, correlation: int, ask: Ask, now: Now) -> None:
        """In the newest version that both know, if there is one in which it can be said."""
        assert line.known is not None
        first, last = line.known.get(ask.api_key, (0, -1))
        version = min(ask.version, last)
        try:
            if version < max(first, APIS[ask.api_key].first):
                raise UnsupportedVersionError(f"{APIS[ask.api_key].name} {version}")
            self._put(line, ask.api_key, version, correlation, ask.request)
        except UnsupportedVersionError:
            del line.asked[correlation]
            self._tell(PeerUnaware(line.name, line.peer, ask.number), now)
            return
        line.said[correlation] = version

    def _put(
        self, line: Line, api_key: int, version: int, correlation: int, request: Message
    ) -> None:
        pieces = request_frame(APIS[api_key], version, correlation, CLIENT_ID, request)
        data = b"".join(pieces)
        line.out += data
        self.requests += 1
        self.bytes_out += len(data)

    def _connect(self, line: Line, now: Now) -> None:
        host, port = line.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sock, line.fd, line.is_connected = sock, sock.fileno(), False
        try:
            error = sock.connect_ex((host, port))
        except OSError:  # a name that can't be resolved
            error = 1
        self._by_fd[line.fd] = line
        self._epoll.register(line.fd, select.EPOLLIN | select.EPOLLOUT)
        if error not in _BUSY:
            self._refused(line, now)

    def _connected(self, line: Line, now: Now) -> None:
        assert line.sock is not None
        if line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused(line, now)
            return
        line.is_connected = True
        line.has_ended = False
        question: Any = APIS[ApiKey.API_VERSIONS].request()
        self._put(line, ApiKey.API_VERSIONS, ASKED_PLAINLY, FIRST_QUESTION, question())
        self._flush(line, now)

    def _flush(self, line: Line, now: Now) -> None:
        assert line.sock is not None
        if not line.is_connected:
            return
        try:
            if line.out:
                del line.out[: line.sock.send(line.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._lost(line, now)
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if line.out else 0)
        self._epoll.modify(line.fd, wanted)

    # Being answered ------------------------------------------------------------------------------

    def _receive(self, line: Line, now: Now) -> None:
        assert line.sock is not None
        try:
            data = line.sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(line, now)
            return
        line.received += data
        self.bytes_in += len(data)
        while len(line.received) >= _LENGTH_AND_CORRELATION.size:
            size, correlation = _LENGTH_AND_CORRELATION.unpack_from(line.received)
            if not 4 <= size <= MAX_FRAME:
                self._lost(line, now, probe=False)
                return
            if len(line.received) < 4 + size:
                return
            frame = bytes(line.received[8 : 4 + size])
            del line.received[: 4 + size]
            is_first = line.known is None
            if not (self._learn if is_first else self._answered)(line, correlation, frame, now):
                self._lost(line, now, probe=False)
                return
            self.responses += 1

    def _learn(self, line: Line, correlation: int, frame: bytes, now: Now) -> bool:
        """The answer to the first question: what has waited for it leaves. False: it is none."""
        if correlation != FIRST_QUESTION:
            return False
        try:
            response: Any = decode(APIS[ApiKey.API_VERSIONS].response(), ASKED_PLAINLY, frame)
        except ProtocolError:
            return False
        line.known = {it.api_key: (it.min_version, it.max_version) for it in response.api_keys}
        for number, (ask, _) in list(line.asked.items()):
            self._say(line, number, ask, now)
        self._flush(line, now)
        return True

    def _answered(self, line: Line, correlation: int, frame: bytes, now: Now) -> bool:
        answered = self._read(line, correlation, frame)
        if answered is not None:
            self._tell(answered, now)
        return answered is not None

    @staticmethod
    def _read(line: Line, correlation: int, frame: bytes) -> PeerAnswered | None:
        """The answer to what was asked; None when it is none, and what was asked still waits."""
        version = line.said.get(correlation)
        if version is None:
            return None
        ask, _ = line.asked[correlation]
        api = APIS[ask.api_key]
        try:
            start = 0
            if api.response_header_version(version) == 1:
                start = skip_tags(frame, 1, len(frame), frame[0]) if frame[0] else 1
            response = decode(api.response(), version, frame, start)
        except (ProtocolError, IndexError, Malformed):
            return None
        del line.asked[correlation], line.said[correlation]
        return PeerAnswered(line.name, line.peer, ask.number, response)

    # Connections that end ------------------------------------------------------------------------

    def _refused(self, line: Line, now: Now) -> None:
        is_gone, line.has_ended = line.has_ended, False
        self._lost(line, now, probe=False)
        if is_gone:
            self._tell(PeerVanished(line.peer), now)

    def _lost(self, line: Line, now: Now, *, probe: bool = True) -> None:
        """The connection is over; what was asked is not answered."""
        was_connected = line.is_connected
        self._disconnect(line)
        asked, line.asked = line.asked, {}
        line.has_ended |= was_connected
        if was_connected and probe:
            self._connect(line, now)
        for ask, _ in asked.values():
            self._tell(PeerSilent(line.name, line.peer, ask.number), now)

    def _disconnect(self, line: Line) -> None:
        if line.sock is not None:
            self._by_fd.pop(line.fd, None)
            self._epoll.unregister(line.fd)
            line.sock.close()
        line.sock, line.fd, line.is_connected = None, -1, False
        line.out.clear()
        line.received.clear()
        line.said.clear()
        line.known = None
