"""One client's connection: bytes in, frames out; answers in, bytes out, in the order of asking.

Receiving goes through one arena that all connections share: each socket that is ready reads into
it behind the one before, so that batches lie still until the turn's write and nothing is
allocated. What is left of a frame at the end of a turn is kept by its connection; a frame larger
than that is received straight into a buffer of its own.
"""

from __future__ import annotations

import os
import struct
from collections import deque

from kraftlog.errors import ProtocolError
from kraftlog.node.slots import Slot
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.types import Now

ARENA_SIZE = 1 << 20
#: What is kept of an unfinished frame; larger frames get a buffer of their own.
SMALL_FRAME = 64 << 10
#: The most that one socket may read in a turn: nobody keeps the others waiting.
READ_SIZE = 256 << 10
#: A connection that owes more answers than this is not read from until it has taken some.
MAX_UNANSWERED = 4096
MAX_UNSENT = 64 << 20
#: Slices up to this size are copied and sent together with what is around them.
COPY_SLICE = 64 << 10
#: The most pieces that one system call takes.
MAX_PIECES = 512

_LENGTH = struct.Struct(">i")
assert SMALL_FRAME + READ_SIZE <= ARENA_SIZE


class Arena:
    """The shared receive buffer, filled from the front during one turn."""

    def __init__(self) -> None:
        self.buffer = bytearray(ARENA_SIZE)
        self.view = memoryview(self.buffer)
        self.used = 0

    def has_room(self) -> bool:
        return self.used + SMALL_FRAME + READ_SIZE <= ARENA_SIZE


class Connection:
    """Slots are filled by the node in any order and leave in the order of `slots`."""

    def __init__(self, sock: socket.socket, peer: str, max_frame: int) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.max_frame = max_frame
        self.closed = False
        #: The beginning of a frame that has not arrived whole.
        self.rest = b""
        #: A large frame under way, and how much of it is there.
        self.large: bytearray | None = None
        self.large_filled = 0
        self.slots: deque[Slot] = deque()
        #: What is on its way out: bytes, and slices as [fd, position, size, slice].
        self.out: deque[Any] = deque()
        self.unsent = 0
        #: Whether an answer may have become ready in this turn.
        self.stirred: list[Connection] | None = None
        self.events = 0

    def ready(self, slot: Slot) -> None:
        """The node has filled a slot."""
        if self.closed:
            return
        for piece in slot.pieces or ():
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                piece.pin()
        if self.stirred is not None:
            self.stirred.append(self)
            self.stirred = None

    # Receiving -----------------------------------------------------------------------------------

    def receive(self, arena: Arena, node: Node, now: Now) -> None:
        """Read what there is, once, and hand every whole frame to the node."""
        if self.large is not None:
            self._receive_large(node, now)
            return
        start = arena.used
        kept = len(self.rest)
        if kept:
            arena.view[start : start + kept] = self.rest
            self.rest = b""
        count = self.sock.recv_into(arena.view[start + kept : start + kept + READ_SIZE])
        if not count:
            raise ConnectionResetError("closed by the peer")
        end = arena.used = start + kept + count
        pos = self._frames(arena.buffer, start, end, node, now)
        self._keep(arena, pos, end)

    def _frames(self, buffer: bytearray, pos: int, end: int, node: Node, now: Now) -> int:
        """Hand over the whole frames in `buffer[pos:end]`; where the first unfinished begins."""
        while end - pos >= 4:
            size = _LENGTH.unpack_from(buffer, pos)[0]
            if not 0 < size <= self.max_frame:
                raise ProtocolError(f"a frame of {size} bytes; 1 to {self.max_frame} are taken")
            if end - pos - 4 < size:
                break
            slot = Slot(self)
            self.slots.append(slot)
            node.frame(slot, buffer, pos + 4, pos + 4 + size, now)
            pos += 4 + size
        return pos

    def _keep(self, arena: Arena, pos: int, end: int) -> None:
        left = end - pos
        if not left:
            return
        if left >= 4:
            size = _LENGTH.unpack_from(arena.buffer, pos)[0]
            if size > SMALL_FRAME:
                self.large = bytearray(size)
                self.large[: left - 4] = arena.view[pos + 4 : end]
                self.large_filled = left - 4
                return
        self.rest = bytes(arena.view[pos:end])

    def _receive_large(self, node: Node, now: Now) -> None:
        buffer = self.large
        assert buffer is not None
        with memoryview(buffer) as view:
            count = self.sock.recv_into(view[self.large_filled :])
        if not count:
            raise ConnectionResetError("closed by the peer")
        self.large_filled += count
        if self.large_filled == len(buffer):
            self.large = None
            slot = Slot(self)
            self.slots.append(slot)
            node.frame(slot, buffer, 0, len(buffer), now)

    # Sending -------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send the answers that are ready, up to the first that is not, as far as it goes."""
        slots = self.slots
        while slots and slots[0].pieces is not None:
            for piece in slots.popleft().pieces or ():
                self._queue(piece)
        while self.out:
            if type(self.out[0]) is list:
                if not self._send_slice(self.out[0]):
                    return
            elif not self._send_bytes():
                return

    def _queue(self, piece: Any) -> None:
        size = len(piece)
        if not size:
            return
        self.unsent += size
        if isinstance(piece, (bytes, bytearray, memoryview)):
            self.out.append(piece)
        elif size <= COPY_SLICE:
            self.out.append(piece.read())
            piece.release()
        else:
            self.out.append([piece.fd, piece.position, size, piece])

    def _send_bytes(self) -> bool:
        """Send the bytes in front of the queue; whether all of them went."""
        out = self.out
        pieces: list[Any] = []
        for piece in out:
            if type(piece) is list or len(pieces) == MAX_PIECES:
                break
            pieces.append(piece)
        try:
            sent = self.sock.send(pieces[0]) if len(pieces) == 1 else self.sock.sendmsg(pieces)
        except BlockingIOError:
            return False
        self.unsent -= sent
        for piece in pieces:
            if sent < len(piece):
                if sent:
                    out[0] = memoryview(piece)[sent:]
                return False
            sent -= len(piece)
            out.popleft()
        return True

    def _send_slice(self, item: list[Any]) -> bool:
        fd, position, size, piece = item
        while size:
            try:
                sent = os.sendfile(self.fd, fd, position, size)
            except BlockingIOError:
                item[1:3] = position, size
                return False
            if not sent:
                raise ConnectionResetError("a file is shorter than what was promised from it")
            position += sent
            size -= sent
            self.unsent -= sent
        piece.release()
        self.out.popleft()
        return True

    def overdue(self) -> bool:
        """Whether the peer takes its answers too slowly to be asked for more."""
        return len(self.slots) >= MAX_UNANSWERED or self.unsent >= MAX_UNSENT

    def close(self) -> None:
        """Let go of everything, also of what the node still works on for this connection."""
        self.closed = True
        for item in self.out:
            if type(item) is list:
                item[3].release()
        for slot in self.slots:
            _release(slot.pieces)
            slot.abandon()
        self.out.clear()
        self.slots.clear()
        self.sock.close()


def _release(pieces: list[Any] | None) -> None:
    """Give back the file slices of an answer that is not sent."""
    for piece in pieces or ():
        if not isinstance(piece, (bytes, bytearray, memoryview)):
            piece.release()
