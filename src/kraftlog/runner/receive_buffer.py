"""`ReceiveBuffer`: the bytes that a connection to a peer has received, as whole frames.

The host receives into `room`, so bytes are copied once, from the kernel. A frame is a view of the
buffer, and the record batches in it are written to a log without another copy.
"""

from __future__ import annotations

import struct

#: The size of a new buffer, in bytes.
FIRST_SIZE = 16 << 10
#: Larger buffers are not kept for reuse; this is enough for one response to a follower.
MAX_KEPT = 5 << 20
#: Sizes of large buffers are multiples of this, so that a slightly larger frame also fits.
STEP = 1 << 20
MAX_FRAME = 100 << 20
#: The length of a frame does not count itself; the correlation id follows it.
LENGTH_SIZE, HEAD_SIZE = 4, 8

_LENGTH = struct.Struct(">i")


class FrameLengthError(Exception):
    """The peer has sent a frame length that is not possible."""


class ReceiveBuffer:
    """Grows to the largest frame; the bytes from `_start` to `_end` are not consumed yet."""

    __slots__ = ("_data", "_end", "_spare", "_start")

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = self._end = 0
        #: The buffer of an earlier frame, which is free once the next frame is complete.
        self._spare: bytearray | None = None

    def room(self) -> memoryview:
        """The memory for the next bytes."""
        if self._end == len(self._data):
            self._grow()
        return memoryview(self._data)[self._end :]

    def _grow(self) -> None:
        """Make room for the rest of a frame, or double the buffer."""
        size = max(2 * (self._end - self._start), FIRST_SIZE)
        if self._end - self._start >= LENGTH_SIZE:
            size = max(size, LENGTH_SIZE + self._frame_size())
        if size > STEP:
            size = -(-size // STEP) * STEP
        self._move_to(bytearray(size))

    def _move_to(self, data: bytearray) -> None:
        rest = self._end - self._start
        if rest > len(data):
            data = bytearray(rest)
        data[:rest] = memoryview(self._data)[self._start : self._end]
        self._data, self._start, self._end = data, 0, rest

    def _frame_size(self) -> int:
        size: int = _LENGTH.unpack_from(self._data, self._start)[0]
        if not HEAD_SIZE - LENGTH_SIZE <= size <= MAX_FRAME:
            raise FrameLengthError
        return size

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length; None if the rest is still to come."""
        available = self._end - self._start
        if available < HEAD_SIZE:
            return None
        size = self._frame_size()
        if available < LENGTH_SIZE + size:
            return None
        start = self._start + LENGTH_SIZE
        self._start = start + size
        frame = memoryview(self._data)[start : self._start]
        if self._start == self._end:
            self._start = self._end = 0
        return frame

    @property
    def missing(self) -> int:
        """The bytes that an incomplete frame still lacks; 0 if its head has not arrived."""
        available = self._end - self._start
        if available < HEAD_SIZE:
            return 0
        return LENGTH_SIZE + self._frame_size() - available

    def lend(self) -> None:
        """Keep the memory of the last frame unchanged until the next frame is complete."""
        data, self._spare = self._spare, self._data
        self._move_to(bytearray(FIRST_SIZE) if data is None else data)
        if len(self._spare) > MAX_KEPT:
            self._spare = None
