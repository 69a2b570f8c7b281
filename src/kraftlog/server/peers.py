"""Connections to other nodes: requests out, answers in, told to the node as reports.

A line to a peer is one connection, opened when the first request is sent. It begins with the
question which versions the peer knows; what is asked waits for that answer, and leaves in the
newest version that both know. A request without an answer in time ends its connection, as nobody
could say to which request a late answer belongs. A connection that ends is tried again at once,
once: when that is refused, the peer's process is gone.
"""

from __future__ import annotations

import errno
import select
import socket
import struct

from kraftlog.effects import PeerAnswered, PeerSilent, PeerUnaware, PeerVanished
from kraftlog.errors import ProtocolError, UnsupportedVersionError
from kraftlog.server.names import Names, numeric
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.primitives import Malformed, skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import Ask
    from kraftlog.server.names import Place
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

READ_SIZE = 256 << 10
MAX_FRAME = 100 << 20
CLIENT_ID = "kraftlog"
#: The correlation id and version of the question which versions a peer knows: it knows this one.
FIRST_QUESTION, ASKED_PLAINLY = 0, 0

#: Ports come from settings, and from what other nodes say of each other.
LAST_PORT = 65535

#: Who takes connections and ends them all without a word is not tried for ever.
MOST_PROBES = 5

_LENGTH_AND_CORRELATION = struct.Struct(">ii")
_BUSY = {0, errno.EAGAIN, errno.EINPROGRESS}


class Line:
    """One connection and what was asked on it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        self.name = name
        self.peer = peer
        self.address = address
        self.sock: socket.socket | None = None
        self.fd = -1
        self.events = 0
        #: Where it was met last: there a connection that has ended is tried again.
        self.met: Place | None = None
        #: Where else to look, if it is not at the place that is being tried.
        self.places: list[Place] = []
        self.is_searching = False
        self.is_connected = False
        #: A connection has ended, and none has been made since.
        self.has_ended = False
        #: How often a connection was tried because one had ended, since the peer said anything.
        self.probes = 0
        self.out = bytearray()
        self.received = bytearray()
        #: What waits for an answer by its correlation id, and when that is overdue.
        self.asked: dict[int, tuple[Ask, int]] = {}
        #: No answer is overdue before this.
        self.due_ms = 0
        #: The versions that the peer knows of each API: (first, last). None: it has not said yet.
        self.known: dict[int, tuple[int, int]] | None = None
        #: The version in which each of `asked` was said; what is not here waits for `known`.
        self.said: dict[int, int] = {}


class Peers:
    """All lines of a node. `tell` gets the reports."""

    def __init__(self, epoll: select.epoll, tell: Callable[[Any, Now], None]) -> None:
        self._epoll = epoll
        self._tell = tell
        #: Whatever comes is received here first: allocating so much each time would cost more.
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._names = Names()
        epoll.register(self._names.ready_fd, select.EPOLLIN)
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
        return fd in self._by_fd or fd == self._names.ready_fd

    def deadline(self) -> int | None:
        """Before which no answer is overdue."""
        return min([line.due_ms for line in self._lines.values() if line.asked], default=None)

    def close(self) -> None:
        for line in list(self._by_fd.values()):
            self._disconnect(line)
        self._names.close()

    # Turns ---------------------------------------------------------------------------------------

    def send(self, now: Now) -> None:
        """At the end of a turn: what was asked leaves."""
        asks, self._new = self._new, []
        lines: dict[Line, None] = {}
        for ask in asks:
            line = self._line(ask, now)
            if ask.fresh and line.asked:
                self._lost(line, now, probe=False)
            self._enqueue(line, ask, now)
            lines[line] = None
        for line in lines:
            if line.sock is None:
                self._connect(line, now)
            else:
                self._flush(line, now)

    def expire(self, now: Now) -> None:
        """End the connections of those whose answers are overdue."""
        for line in self._lines.values():
            if line.asked and line.due_ms <= now.monotonic_ms:
                line.due_ms = min([at for _, at in line.asked.values()])
                if line.due_ms <= now.monotonic_ms:
                    line.met = None  # who is silent there may be somewhere else by now
                    self._lost(line, now, probe=False)

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
            line.address, line.met, line.has_ended = address, None, False
        return line

    def _enqueue(self, line: Line, ask: Ask, now: Now) -> None:
        self._correlation = (self._correlation & 0x3FFFFFFF) + 1
        due_ms = now.monotonic_ms + ask.timeout_ms
        line.due_ms = min(line.due_ms, due_ms) if line.asked else due_ms
        line.asked[self._correlation] = ask, due_ms
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

    def _found(self, line: Line, places: list[Place], now: Now) -> None:
        """An address that leads nowhere says nothing about who has it."""
        if not places:
            self._lost(line, now, probe=False)
        elif line.asked:
            line.has_ended = False  # the name may lead elsewhere now, where nobody has answered yet
            line.places = places[1:]
            self._try(line, places[0], now)

    def _try(self, line: Line, place: Place, now: Now) -> None:
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

    def _connected(self, line: Line, now: Now) -> None:
        assert line.sock is not None
        error = line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._failed(line, error, now)
            return
        line.is_connected, line.has_ended = True, False
        line.places.clear()
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
        if wanted != line.events:
            line.events = wanted
            self._epoll.modify(line.fd, wanted)

    # Being answered ------------------------------------------------------------------------------

    def _receive(self, line: Line, now: Now) -> None:
        sock = line.sock
        assert sock is not None
        try:
            size = sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._lost(line, now)
            return
        line.received += self._buffer[:size]
        self.bytes_in += size
        received, end, pos = line.received, len(line.received), 0
        while end - pos >= _LENGTH_AND_CORRELATION.size:
            size, correlation = _LENGTH_AND_CORRELATION.unpack_from(received, pos)
            if not 4 <= size <= MAX_FRAME:
                self._lost(line, now, probe=False)
                return
            if end - pos < 4 + size:
                break
            frame = bytes(received[pos + 8 : pos + 4 + size])
            pos += 4 + size
            is_first = line.known is None
            if not (self._learn if is_first else self._answered)(line, correlation, frame, now):
                self._lost(line, now, probe=False)
                return
            self.responses += 1
            if line.sock is not sock:
                return  # what waited for this answer could not be sent: the line has begun anew
        del received[:pos]

    def _learn(self, line: Line, correlation: int, frame: bytes, now: Now) -> bool:
        """The answer to the first question: what has waited for it leaves. False: it is none."""
        if correlation != FIRST_QUESTION:
            return False
        try:
            response: Any = decode(APIS[ApiKey.API_VERSIONS].response(), ASKED_PLAINLY, frame)
        except ProtocolError:
            return False
        if response.error_code or not response.api_keys:
            return False
        line.probes = 0
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

    def _failed(self, line: Line, error: int, now: Now) -> None:
        """No connection was made. Only a refusal says that nobody listens there any more."""
        if line.places:
            self._close(line)
            self._try(line, line.places.pop(0), now)
            return
        if error == errno.ECONNRESET and line.has_ended:
            # Made and ended before we looked, as by a process whose sockets are just being closed.
            line.is_connected = True
            self._lost(line, now)
            return
        is_gone = line.has_ended and error == errno.ECONNREFUSED
        line.has_ended, line.met = False, None
        self._lost(line, now, probe=False)
        if is_gone:
            self._tell(PeerVanished(line.peer), now)

    def _lost(self, line: Line, now: Now, *, probe: bool = True) -> None:
        """The connection is over; what was asked is not answered."""
        was_connected = line.is_connected
        self._disconnect(line)
        asked, line.asked = line.asked, {}
        line.has_ended |= was_connected
        if was_connected and probe and line.probes < MOST_PROBES:
            line.probes += 1
            self._connect(line, now)
        for ask, _ in asked.values():
            self._tell(PeerSilent(line.name, line.peer, ask.number), now)

    def _close(self, line: Line) -> None:
        if line.sock is not None:
            self._by_fd.pop(line.fd, None)
            self._epoll.unregister(line.fd)
            line.sock.close()
        line.sock, line.fd, line.is_connected = None, -1, False

    def _disconnect(self, line: Line) -> None:
        self._close(line)
        line.places.clear()
        line.out.clear()
        line.received.clear()
        line.said.clear()
        line.known = None
