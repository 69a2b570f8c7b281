"""A client connection: receives requests and sends responses in the order of the requests.

All connections receive into one shared arena, each ready socket after the previous one, so that
batches stay in place until the turn's write and nothing is allocated. A connection keeps a small
request that is incomplete at the end of a turn; a large one is received into a buffer of its own.

A connection has a slice of each turn for its requests. Complete requests that are left after the
slice stay undecoded and are served (`serve_rest`) after those of other connections.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque

from kraftlog.errors import (
    InternalError,
    KraftlogError,
    ProtocolError,
    UnansweredError,
    UnexpectedTlsError,
)
from kraftlog.node.pending_response import PendingResponse
from kraftlog.server.memory import ALWAYS_READ_BYTES
from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, BROKER, ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.node.authentication import Authenticator
    from kraftlog.node.fetch.consumer_template import ReadyResponse
    from kraftlog.node.node import Node
    from kraftlog.node.produce.template import PendingResponses
    from kraftlog.node.request_latency import RequestLatency
    from kraftlog.node.templates.request_templates import RequestTemplates
    from kraftlog.server.memory import ClientMemory
    from kraftlog.server.turns import TurnClock
    from kraftlog.types import Now

ARENA_SIZE = 1 << 20
#: Largest incomplete frame that is kept; larger frames get a buffer of their own.
SMALL_FRAME = 64 << 10
#: Most bytes that one socket may receive in a turn, for fairness.
READ_SIZE = 256 << 10
#: The buffer of a large frame begins with at most this capacity, and grows as it fills. It has
#: room for a request with the largest batch that Kafka accepts by default.
MAX_FIRST_CAPACITY = (1 << 20) + (64 << 10)
#: How much a buffer grows at a time, once it is too large for the pool.
GROWTH = 1 << 20
#: Bytes of buffers that are pooled for the next large frames, because new memory is slow.
MAX_POOLED = 8 << 20
#: Reading of a connection is paused at any of three limits: the number of unanswered requests, the
#: bytes of unsent responses, and the bytes of both in memory (without file slices).
MAX_UNANSWERED = 4096
MAX_UNSENT = 64 << 20
MAX_HELD = 2 << 20
#: The clock is read after each normal request, and after this many served from templates.
REQUESTS_PER_CLOCK_READ = 32
#: File slices up to this size are copied and sent together with the bytes around them.
COPY_SLICE = 64 << 10
#: Approximate limits of bytes and buffers for one system call.
SEND_SIZE = 1 << 20
MAX_PIECES = 512
#: Approximate number of bytes that a connection sends in a turn.
SENT_PER_TURN = 4 << 20

#: How the first record of TLS begins, where Kafka's protocol has the upper half of a length.
TLS_HANDSHAKE = 0x1603

#: The key of the largest frame of a client that has not logged in.
RECEIVE_SIZE = "sasl.server.max.receive.size"
PRODUCE = APIS[ApiKey.PRODUCE].name
_LENGTH = struct.Struct(">i")
_IN_MEMORY = (bytes, bytearray, memoryview)
assert SMALL_FRAME + READ_SIZE <= ARENA_SIZE


class Arena:
    """The shared receive buffer, filled from the front in each turn, and a pool of large ones."""

    def __init__(self) -> None:
        self.buffer = bytearray(ARENA_SIZE)
        self.view = memoryview(self.buffer)
        self.used = 0
        self._free: dict[int, list[bytearray]] = {}
        self._free_bytes = 0
        #: Large buffers that are free after this turn; until then, requests or batches use them.
        self._given_back: list[bytearray] = []

    def lend(self, size: int, received: int) -> bytearray:
        """A buffer for a large frame or its beginning.

        Its size grows with the number of bytes received, not with the announced `size`.
        """
        capacity = min(1 << (size - 1).bit_length(), MAX_FIRST_CAPACITY)
        if capacity > 4 * received:
            capacity = 2 << received.bit_length()
        return self.take(capacity)

    @staticmethod
    def next_capacity(capacity: int, size: int) -> int:
        """The capacity of a buffer that is full, for a frame of `size`.

        A pooled buffer gets a capacity that `lend` uses: one of any other size would never be lent
        again, but take up space in the pool.
        """
        if capacity < MAX_FIRST_CAPACITY:
            return min(2 * capacity, MAX_FIRST_CAPACITY)
        return capacity + min(GROWTH, size - capacity)

    def take(self, capacity: int) -> bytearray:
        """A pooled buffer of this capacity, or a new one."""
        free = self._free.get(capacity)
        if not free:
            return bytearray(capacity)
        self._free_bytes -= capacity
        return free.pop()

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer at the end of this turn."""
        self._given_back.append(buffer)

    def clear(self) -> None:
        """End the turn: batches are written, so the received bytes can be overwritten."""
        self.used = 0
        if self._given_back:
            for buffer in self._given_back:
                size = len(buffer)
                if size <= MAX_FIRST_CAPACITY and self._free_bytes + size <= MAX_POOLED:
                    self._free.setdefault(size, []).append(buffer)
                    self._free_bytes += size
            self._given_back.clear()

    def has_room(self) -> bool:
        return self.used + SMALL_FRAME + READ_SIZE <= ARENA_SIZE


class Connection:
    """A client connection; the node responds in any order, responses leave in request order."""

    #: A buffer with less room for a large frame grows before the next bytes are received.
    least_room = 1

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        max_frame: int,
        latency: RequestLatency,
        turns: TurnClock,
        memory: ClientMemory,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.host = peer.rpartition(":")[0]
        self.max_frame = max_frame
        self.latency = latency
        self.turns = turns
        self.memory = memory
        #: The bytes of this connection in the account of `memory`.
        self.charged = 0
        #: How much more memory it needs to receive the rest of a large frame.
        self.needs = 0
        #: Time of the last receive or send, by the clock of the turns.
        self.active_ns = turns.began_ns
        #: The APIs of this listener: those of brokers, of controllers, or both.
        self.serves = BROKER
        #: The name of the listener that accepted the connection.
        self.listener_name = ""
        #: Who the client is, as its certificate or its login has proved.
        self.principal = ANONYMOUS
        #: What serves its frames until it has logged in, and again after its session; None: the
        #: node does.
        self.gate: Authenticator | None = None
        self.authenticator: Authenticator | None = None
        self.closed = False
        #: Whether it is closed once all responses are sent.
        self.closes = False
        #: An error from a method that must not raise, because the node calls it; `send` raises it.
        self.failure: OSError | KraftlogError | None = None
        #: Received bytes that the node did not get: the beginning of a frame; or, if the slice of
        #: the turn was over or reading is paused, any number of frames from `rest_at` on.
        self.rest = bytearray()
        self.rest_at = 0
        self.holds_frames = False
        #: Whether the loop has queued this connection for service.
        self.is_queued = False
        #: Number of requests that the node serves in slices; later requests wait for all of them.
        self.mutes = 0
        #: The large frame being received, its size, and the bytes received so far.
        self.large: bytearray | None = None
        self.large_size = 0
        self.large_filled = 0
        self.responses: deque[PendingResponse | PendingResponses | ReadyResponse] = deque()
        #: What is to be sent: bytes, and slices of files; part of the first may be sent.
        self.out: deque[Any] = deque()
        #: How many bytes of the file slice at the head of `out` are sent.
        self.slice_sent = 0
        #: Whether the socket holds back the last bytes of a file slice until what follows is sent.
        self.is_corked = False
        self.is_tcp = sock.family in (socket.AF_INET, socket.AF_INET6)
        #: Unsent bytes of responses that are ready; those of them that are in files; and the bytes
        #: of requests without a response.
        self.unsent = 0
        self.in_files = 0
        self.unanswered = 0
        #: The send queue of the loop; None while this connection is in it.
        self.dirty: list[Connection] | None = None
        #: The epoll events that the loop has registered for the socket.
        self.events = 0
        #: The request templates of this connection, owned by the node.
        self.request_templates: RequestTemplates | None = None

    def ready(self, pending: PendingResponse | PendingResponses | ReadyResponse) -> None:
        """Accept a response of the node.

        Its files stay open until it is sent; if too many are open, small file slices are read at
        once.
        """
        if self.closed:
            return
        pieces: Any = pending.pieces or ()
        try:
            for index, piece in enumerate(pieces):
                self.unsent += len(piece)
                if not isinstance(piece, _IN_MEMORY):
                    piece.pin()
                    self.in_files += len(piece)
                    if len(piece) <= COPY_SLICE and piece.has_too_many_open_files:
                        self.in_files -= len(piece)
                        pieces[index] = _copy(piece)
        except OSError as error:
            self.failure = error
        self.mark_dirty()

    def mute(self) -> None:
        """Pass no more requests to the node until `unmute`."""
        self.mutes += 1
        self.mark_dirty()  # so that the loop stops reading it

    def unmute(self) -> None:
        """Take back one `mute`."""
        self.mutes -= 1
        self.mark_dirty()

    def fail(self, error: InternalError | ProtocolError | UnansweredError | OSError) -> None:
        """Close this connection, because a request is invalid or cannot be answered."""
        self.failure = error
        self.mark_dirty()

    def close_after_responses(self) -> None:
        """Close this connection once the responses to all requests so far are sent."""
        self.closes = True
        self.mark_dirty()

    def mark_dirty(self) -> None:
        """Schedule `send` for the end of the turn."""
        if self.dirty is not None:
            self.dirty.append(self)
            self.dirty = None

    # Receiving -----------------------------------------------------------------------------------

    def receive(self, arena: Arena, node: Node | Authenticator, now: Now) -> None:
        """Receive once and serve complete frames while the slice of the turn lasts."""
        start = arena.used
        if self.large is not None:
            after_large = self._receive_large(arena, node, now)
            if after_large < 0:
                return
            end = start + after_large
            if self._ends_slice(PRODUCE) and after_large:
                self.rest, self.holds_frames = arena.buffer[start:end], True
                return
        else:
            kept = len(self.rest)
            if kept:
                arena.view[start : start + kept] = self.rest
            end = start + kept
            end += self._read([arena.view[end : start + SMALL_FRAME + READ_SIZE]])
        arena.used = end
        if self.rest:
            self.rest = bytearray()
        pos = self._serve_frames(arena.buffer, arena.view, start, end, node, now)
        if pos < end:
            self._keep(arena, arena.view, pos, end)

    def serve_rest(self, arena: Arena, node: Node | Authenticator, now: Now) -> None:
        """Serve frames received earlier while the slice of the turn lasts."""
        rest = self.rest
        end = len(rest)
        view = memoryview(rest)
        self.rest_at = pos = self._serve_frames(rest, view, self.rest_at, end, node, now)
        self.memory.served(self)
        if not self.holds_frames:
            self.rest, self.rest_at = bytearray(), 0
            self._keep(arena, view, pos, end)

    def _read(self, views: list[memoryview]) -> int:
        """Receive from the socket; any error closes the connection."""
        if not views[-1]:
            return 0
        try:
            if len(views) == 1:
                count = self.sock.recv_into(views[0])
            else:
                count = self.sock.recvmsg_into(views)[0]
        except BlockingIOError:
            raise
        except OSError as error:  # also errors other than ConnectionError, such as no route
            raise ConnectionResetError(str(error)) from error
        if not count:
            raise ConnectionResetError("closed by the peer")
        self.active_ns = self.turns.began_ns
        return count

    def _serve_frames(
        self,
        buffer: bytearray,
        view: memoryview,
        pos: int,
        end: int,
        node: Node | Authenticator,
        now: Now,
    ) -> int:
        """Pass complete frames of `buffer[pos:end]` to the node; return where the rest starts."""
        responses = self.responses
        requests_left = REQUESTS_PER_CLOCK_READ
        while end - pos >= 4:
            size = _LENGTH.unpack_from(buffer, pos)[0]
            if not 0 < size <= self.max_frame:
                raise self._invalid_size(size)
            after = pos + 4 + size
            if after > end:
                break
            templates = self.request_templates if self.gate is None else None
            if templates is not None and templates.serve(buffer, view, pos + 4, after, now):
                pos = after
                requests_left -= 1
                if requests_left:
                    continue
                requests_left = REQUESTS_PER_CLOCK_READ
                cause = (
                    _api_name(responses[-1]) if responses else PRODUCE
                )  # there is no response if acks=0
            else:
                pending = PendingResponse(self)
                pending.size = size
                self.unanswered += size
                responses.append(pending)
                node.frame(pending, buffer, pos + 4, after, now)
                pos = after
                cause = _api_name(pending)
            if self._ends_slice(cause) and pos < end:
                self.holds_frames = True
                return pos
        self.holds_frames = False
        return pos

    def _invalid_size(self, size: int) -> ProtocolError:
        if size >> 16 == TLS_HANDSHAKE:
            return UnexpectedTlsError(
                f"a TLS handshake on {self.listener_name}, which has no TLS; "
                "clients need the security.protocol of the listener that they connect to"
            )
        key = "socket.request.max.bytes" if self.gate is None else RECEIVE_SIZE
        return ProtocolError(f"frame of {size} bytes; expected 1 to {self.max_frame} ({key})")

    def _ends_slice(self, cause: str) -> bool:
        """Account the time of a request to `cause`; return whether the slice ends after it."""
        turns = self.turns
        is_over = turns.step(cause) >= turns.slice_until_ns
        if self.unsent or self.unanswered:
            self.charge()
        if self.is_reading_paused():
            self.mark_dirty()
            return True
        return is_over

    def _keep(self, arena: Arena, view: memoryview, pos: int, end: int) -> None:
        """Keep the bytes after the last served frame; a large frame gets a buffer of its own."""
        left = end - pos
        if left >= 4 and not self.holds_frames:
            size = _LENGTH.unpack_from(view, pos)[0]
            if size > SMALL_FRAME and left >= SMALL_FRAME:
                self.large = arena.lend(size, left)
                memoryview(self.large)[: left - 4] = view[pos + 4 : end]
                self.large_filled = left - 4
                self.large_size = size
                self._charge_received()
                return
        self.rest = bytearray(view[pos:end])
        self._charge_received()

    def _receive_large(self, arena: Arena, node: Node | Authenticator, now: Now) -> int:
        """Receive the rest of a large frame.

        Return the number of bytes after it, which are in the arena; -1 while it is incomplete.
        """
        buffer, size, start = self.large, self.large_size, arena.used
        assert buffer is not None
        if len(buffer) - self.large_filled < self.least_room and len(buffer) < size:
            capacity = arena.next_capacity(len(buffer), size)
            self.needs = capacity - len(buffer)
            if self.is_reading_paused():
                self.mark_dirty()
                return -1
            if len(buffer) > MAX_FIRST_CAPACITY:
                buffer += bytes(self.needs)  # realloc remaps the pages without copying
            else:
                # A pooled buffer cannot grow in place: it may contain batches of an earlier turn.
                self.large = larger = arena.take(capacity)
                larger[: len(buffer)] = buffer
                arena.give_back(buffer)
                buffer = larger
            self.needs = 0
            self._charge_received()
        with memoryview(buffer) as view:
            room = [view[self.large_filled : size]]
            if len(buffer) >= size:
                room.append(arena.view[start : start + READ_SIZE])
            count = self._read(room)
            room.clear()
        self.large_filled += count
        if self.large_filled >= size:
            after_large, self.large = self.large_filled - size, None
            arena.give_back(buffer)
            self.memory.served(self)
            templates = self.request_templates if self.gate is None else None
            if templates is None or not templates.serve(buffer, memoryview(buffer), 0, size, now):
                pending = PendingResponse(self)
                pending.size = size
                self.unanswered += size
                self.responses.append(pending)
                node.frame(pending, buffer, 0, size, now)
            self.charge()
            return after_large
        return -1

    # Sending -------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send completed responses up to the first pending one, as far as the socket accepts."""
        if self.failure is not None:
            raise self.failure
        responses, out, quick_ms = self.responses, self.out, self.latency.quick_ms
        while responses and responses[0].pieces is not None:
            pending = responses.popleft()
            out.extend(pending.pieces or ())
            self.unanswered -= pending.size
            if pending.received_ms != quick_ms:  # quick responses are not recorded
                self.latency.sent(pending)
        before = self.unsent
        while out:
            pieces = self._gather()
            if not (self._send_bytes(pieces) if pieces else self._send_slice(out[0])):
                return
            if out and before - self.unsent >= SENT_PER_TURN:
                return
        if self.closes and not responses:
            raise ConnectionAbortedError("closed after its last response")

    def _gather(self) -> list[Any]:
        """The bytes at the head of the queue for one call; none if a large file slice is first."""
        out = self.out
        pieces: list[Any] = []
        size = 0
        for index, piece in enumerate(out):
            if not isinstance(piece, _IN_MEMORY):
                if len(piece) > COPY_SLICE:
                    break
                self.in_files -= len(piece)
                piece = out[index] = _copy(piece)
            pieces.append(piece)
            size += len(piece)
            if size >= SEND_SIZE or len(pieces) == MAX_PIECES:
                break
        return pieces

    def _send_bytes(self, pieces: list[Any]) -> bool:
        """Send the bytes at the head of the queue; return whether all were sent."""
        out = self.out
        # The header is sent together with the file slice after it, which saves the peer a wake-up.
        flags = socket.MSG_MORE if len(out) > len(pieces) else 0
        try:
            if len(pieces) == 1:
                sent = self.sock.send(pieces[0], flags)
            else:
                sent = self.sock.sendmsg(pieces, (), flags)
        except BlockingIOError:
            return False
        self.unsent -= sent
        for piece in pieces:
            if sent < len(piece):
                self.active_ns = self.turns.began_ns
                if sent:
                    out[0] = memoryview(piece)[sent:]
                return False
            sent -= len(piece)
            out.popleft()
        if self.is_corked and not out:
            self._cork(False)
        return True

    def _cork(self, is_corked: bool) -> None:
        self.is_corked = is_corked
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, is_corked)

    def _send_slice(self, piece: Any) -> bool:
        """Send the large file slice at the head of the queue; return whether all of it was sent."""
        size = len(piece)
        if len(self.out) > 1 and self.is_tcp and not self.is_corked:
            self._cork(True)  # or the few bytes that follow would wake up the peer once more
        while self.slice_sent < size:
            at = self.slice_sent
            try:
                sent = os.sendfile(self.fd, piece.fd, piece.position + at, size - at)
            except BlockingIOError:
                return False
            if not sent:
                raise ConnectionResetError(_TOO_SHORT)
            self.slice_sent += sent
            self.unsent -= sent
            self.in_files -= sent
            self.active_ns = self.turns.began_ns
        self.slice_sent = 0
        self.out.popleft()
        piece.release()
        return True

    def is_reading_paused(self) -> bool:
        """Whether reading is paused, by a sliced request or by a limit.

        The limits are those of this connection's responses, and that of all connections' memory.
        """
        return (
            self.mutes > 0
            or len(self.responses) >= MAX_UNANSWERED
            or self.unsent >= MAX_UNSENT
            or self.unsent - self.in_files + self.unanswered >= MAX_HELD
            or (
                self.charged > ALWAYS_READ_BYTES
                and self.memory.lacks(self.needs)
                and self.memory.exempt is not self
            )
        )

    @property
    def owes_nothing(self) -> bool:
        """Whether there is nothing to send, to answer or to account for."""
        return not (self.responses or self.out or self.charged or self.mutes)

    def charge(self) -> None:
        """Update the memory account."""
        held = self.unsent - self.in_files + self.unanswered + len(self.rest)
        if self.large is not None:
            held += len(self.large)
        if held != self.charged:
            self.memory.change(held - self.charged)
            self.charged = held
        memory = self.memory
        if memory.exempt is self and (
            held <= ALWAYS_READ_BYTES
            or (memory.is_exempt_served and not (self.responses or self.out))
        ):
            memory.end_exemption()

    def _charge_received(self) -> None:
        """Update the memory account and pause reading beyond the limit."""
        self.charge()
        if self.is_reading_paused():
            self.mark_dirty()

    @property
    def is_kept_waiting(self) -> bool:
        """Whether its peer waits for us: all responses are sent, and more requests have arrived."""
        if self.out:
            return False
        if self.holds_frames:
            return True
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        """Release all resources, including requests in progress in the node."""
        self.closed = True
        _release(self.out)
        for pending in self.responses:
            _release(pending.pieces or ())
            pending.abandon()
        self.out.clear()
        self.responses.clear()
        self.memory.waiting.pop(self, None)
        self.memory.change(-self.charged)
        self.charged = 0
        if self.memory.exempt is self:
            self.memory.end_exemption()
        self.rest, self.large, self.holds_frames = bytearray(), None, False
        self.request_templates = self.gate = self.authenticator = None  # breaks reference cycles
        self.sock.close()


_TOO_SHORT = "a file is shorter than the length that was sent to the client"


def _api_name(pending: PendingResponse | PendingResponses | ReadyResponse) -> str:
    return pending.api.name if pending.api is not None else ""


def _copy(piece: Any) -> bytes:
    data: bytes = piece.read()
    piece.release()
    if len(data) != len(piece):
        raise ConnectionResetError(_TOO_SHORT)
    return data


def _release(pieces: Iterable[Any]) -> None:
    """Release the file slices of unsent responses."""
    for piece in pieces:
        if not isinstance(piece, _IN_MEMORY):
            piece.release()
