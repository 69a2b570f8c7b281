"""Finds valid batches after corrupt bytes, so that recovery can report what it truncates.

After a power failure a hole before valid batches is normal, because file systems write pages back
in any order. Batches are found by their magic byte, and count if their checksum is right. The
search is bounded, because records may look like batches.
"""

from __future__ import annotations

from kraftlog.records.crc import crc32c
from kraftlog.records.header import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, MIN_LENGTH
from kraftlog.storage.scan import SCANNED
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.storage.disk import Disk, Handle

#: Bytes per read.
_CHUNK = 1 << 20
#: Where the magic byte is in a batch header.
_MAGIC_POSITION = 16
_MAGIC_BYTE = bytes([MAGIC])
#: The search ends once the batches with a wrong CRC have this many bytes.
_BUDGET_BYTES = 256 << 20


class Salvage:
    """The valid batches found so far, in the order of their offsets."""

    def __init__(self, next_offset: int) -> None:
        self._next_offset = next_offset
        self._budget = _BUDGET_BYTES
        self.batches = 0
        self.first_offset = self.last_offset = -1

    def search(self, disk: Disk, handle: Handle, start: int, size: int) -> Iterator[int]:
        """Search a file from `start` on; yields the number of bytes read."""
        position = start
        while size - position >= HEADER_SIZE and self._budget > 0:
            chunk = disk.files.pread(handle.use(), min(_CHUNK, size - position), position)
            yield len(chunk)
            end = len(chunk) - HEADER_SIZE + 1  # a later header is incomplete
            in_chunk = self._candidate(chunk, 0)
            while in_chunk >= 0 and self._budget > 0:
                batch_size = self._valid_size(disk, handle, position + in_chunk, size)
                yield batch_size
                end = max(end, in_chunk + batch_size)
                in_chunk = self._candidate(chunk, in_chunk + (batch_size or 1))
            position += end

    @staticmethod
    def _candidate(chunk: bytes, start: int) -> int:
        """The next position from `start` on where a header may begin, or -1."""
        last = len(chunk) - HEADER_SIZE + _MAGIC_POSITION + 1
        magic_at = chunk.find(_MAGIC_BYTE, start + _MAGIC_POSITION, last)
        while magic_at >= 0:
            in_chunk = magic_at - _MAGIC_POSITION
            # No log has 2^56 offsets, no batch 2^27 bytes; attributes are below 2^8.
            if not chunk[in_chunk] and chunk[in_chunk + 8] < 8 and not chunk[magic_at + 5]:
                return in_chunk
            magic_at = chunk.find(_MAGIC_BYTE, magic_at + 1, last)
        return -1

    def _valid_size(self, disk: Disk, handle: Handle, position: int, size: int) -> int:
        """Count the batch at a position if it is valid; return its size, or 0."""
        head = disk.files.pread(handle.use(), HEADER_SIZE, position)
        base, length, _, _, checksum, _, delta, _, _, count = SCANNED.unpack(head)
        batch_size = length + LENGTH_OVERHEAD
        if (
            not MIN_LENGTH <= length <= size - position - LENGTH_OVERHEAD
            or base < self._next_offset
            or not 0 <= count <= delta + 1
        ):
            return 0
        data = disk.files.pread(handle.use(), batch_size, position)
        if crc32c(memoryview(data)[CRC_START:]) != checksum:
            self._budget -= batch_size
            return 0
        if not self.batches:
            self.first_offset = base
        self.batches += 1
        self.last_offset = base + delta
        self._next_offset = base + delta + 1
        return int(batch_size)

    def line(self) -> str:
        """The end of the line for the operator log; empty if no batch was found."""
        if not self.batches:
            return ""
        return (
            f"; {self.batches} valid batches after it, "
            f"offsets {self.first_offset} to {self.last_offset}, are truncated, too"
        )
