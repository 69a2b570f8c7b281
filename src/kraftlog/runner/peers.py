"""The client side of connections to other nodes: requests out, responses in, reports to the node.

A line to a peer is one connection, opened for the first request. It begins with ApiVersions; other
requests wait for that response, and leave in the newest version that both sides know. A request
without a response in time ends its connection, as a late response could not be told from the next.
A connection that ends is tried again at once, once: if that is refused, the peer's process is gone.

The host carries the bytes: sockets in the server, a virtual network in the simulator.
"""

from __future__ import annotations

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
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.schema import Message

MAX_FRAME = 100 << 20
CLIENT_ID = "kraftlog"
#: The correlation id and version of the ApiVersions request: every peer knows this version.
FIRST_CORRELATION, FIRST_VERSION = 0, 0

#: A peer that accepts connections and closes them all without a response is not tried for ever.
MOST_PROBES = 5

_LENGTH_AND_CORRELATION = struct.Struct(">ii")


class Line:
    """One connection, and the requests that wait for a response on it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        self.name = name
        self.peer = peer
        self.address = address
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

    @property
    def is_open(self) -> bool:
        """Whether a connection exists, or is being made."""
        raise NotImplementedError

    def forget_place(self) -> None:
        """The peer may be found somewhere else by now."""


class PeerLines:
    """All lines of a node; `tell` gets the reports. A host implements `_connect` to `_close`."""

    line_type: type[Line] = Line

    def __init__(self, tell: Callable[[Any, Now], None]) -> None:
        self._tell = tell
        self._lines: dict[tuple[str, int], Line] = {}
        self._correlation = 0
        #: For metrics: what has gone over all lines since the start.
        self.requests = self.responses = self.bytes_in = self.bytes_out = 0
        #: What was asked in this turn: sent, and deadlines counted, when the turn ends.
        self._new: list[Ask] = []

    # The host's part -----------------------------------------------------------------------------

    def _connect(self, line: Any, now: Now) -> None:
        """Begin to connect; later `connected` or `connect_failed` is called."""
        raise NotImplementedError

    def _flush(self, line: Any, now: Now) -> None:
        """Send what is in `line.out`, unless it is not connected yet."""
        raise NotImplementedError

    def _close(self, line: Any) -> None:
        """Close the connection, if there is one."""
        raise NotImplementedError

    # Turns ---------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> None:
        self._new.append(ask)

    def deadline(self) -> int | None:
        """Before which no answer is overdue."""
        return min([line.due_ms for line in self._lines.values() if line.asked], default=None)

    def send(self, now: Now) -> None:
        """At the end of a turn: what was asked leaves."""
        asks, self._new = self._new, []
        lines: dict[Line, None] = {}
        for ask in asks:
            line = self._line(ask, now)
            if ask.fresh and line.asked:
                self.lost(line, now, probe=False)
            self._enqueue(line, ask, now)
            lines[line] = None
        for line in lines:
            if line.is_open:
                self._flush(line, now)
            else:
                self._connect(line, now)

    def expire(self, now: Now) -> None:
        """End the connections of those whose answers are overdue."""
        for line in self._lines.values():
            if line.asked and line.due_ms <= now.monotonic_ms:
                line.due_ms = min([at for _, at in line.asked.values()])
                if line.due_ms <= now.monotonic_ms:
                    line.forget_place()
                    self.lost(line, now, probe=False)

    # Requests ------------------------------------------------------------------------------------

    def _line(self, ask: Ask, now: Now) -> Line:
        key = ask.line, ask.peer
        line = self._lines.get(key)
        address = ask.host, ask.port
        if line is None:
            line = self._lines[key] = self.line_type(ask.line, ask.peer, address)
        elif line.address != address:
            self.lost(line, now, probe=False)
            line.address, line.has_ended = address, False
            line.forget_place()
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

    # Responses -----------------------------------------------------------------------------------

    def connected(self, line: Line, now: Now) -> None:
        line.is_connected, line.has_ended = True, False
        question: Any = APIS[ApiKey.API_VERSIONS].request()
        self._put(line, ApiKey.API_VERSIONS, FIRST_VERSION, FIRST_CORRELATION, question())
        self._flush(line, now)

    def receive(self, line: Line, data: Buffer, now: Now) -> None:
        """Bytes have come; none at all: the peer has closed the connection."""
        if not data:
            self.lost(line, now)
            return
        line.received += data
        self.bytes_in += len(data)
        received, end, pos = line.received, len(line.received), 0
        while end - pos >= _LENGTH_AND_CORRELATION.size:
            size, correlation = _LENGTH_AND_CORRELATION.unpack_from(received, pos)
            if not 4 <= size <= MAX_FRAME:
                self.lost(line, now, probe=False)
                return
            if end - pos < 4 + size:
                break
            frame = bytes(received[pos + 8 : pos + 4 + size])
            pos += 4 + size
            is_first = line.known is None
            if not (self._learn if is_first else self._answered)(line, correlation, frame, now):
                self.lost(line, now, probe=False)
                return
            self.responses += 1
            if line.received is not received:
                return  # what waited for this answer could not be sent: the line begins again
        del received[:pos]

    def _learn(self, line: Line, correlation: int, frame: bytes, now: Now) -> bool:
        """The response to ApiVersions: the requests that waited for it leave. False: it is none."""
        if correlation != FIRST_CORRELATION:
            return False
        try:
            response: Any = decode(APIS[ApiKey.API_VERSIONS].response(), FIRST_VERSION, frame)
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

    def connect_failed(
        self, line: Line, now: Now, *, refused: bool = False, reset: bool = False
    ) -> None:
        """No connection was made. Only a refusal says that no process listens there any more."""
        if reset and line.has_ended:
            # Made and ended before we looked, as by a process whose sockets are just being closed.
            line.is_connected = True
            self.lost(line, now)
            return
        is_gone = refused and line.has_ended
        line.has_ended = False
        line.forget_place()
        self.lost(line, now, probe=False)
        if is_gone:
            self._tell(PeerVanished(line.peer), now)

    def lost(self, line: Line, now: Now, *, probe: bool = True) -> None:
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

    def _disconnect(self, line: Line) -> None:
        self._close(line)
        line.is_connected = False
        line.out.clear()
        line.received = bytearray()
        line.said.clear()
        line.known = None
