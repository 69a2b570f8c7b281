"""Finds valid batches after corrupt bytes, so that recovery can report what it truncates.

After a power failure a hole before valid batches is normal, as file systems write back in any
order. Batches are found by the byte of their magic, and count if their checksum is right. The
search is bounded, as records may look like batches.
"""

from __future__ import annotations

from kraftlog.records.crc import crc32c
from kraftlog.records.header import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, MIN_LENGTH
from kraftlog.storage.scan import SCANNED
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.storage.disk import Disk, Handle

_CHUNK = 1 << 20
_FORMAT_AT = 16
_FORMAT = bytes([MAGIC])
#: The bytes of batches with a wrong CRC after which the search ends.
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
            end = len(chunk) - HEADER_SIZE + 1  # a header that starts later is incomplete here
            here = self._candidate(chunk, 0)
            while here >= 0 and self._budget > 0:
                whole = self._whole(disk, handle, position + here, size)
                yield whole
                end = max(end, here + whole)
                here = self._candidate(chunk, here + (whole or 1))
            position += end

    @staticmethod
    def _candidate(chunk: bytes, start: int) -> int:
        """The next position from `start` on where a header may begin, or -1."""
        last = len(chunk) - HEADER_SIZE + _FORMAT_AT + 1
        place = chunk.find(_FORMAT, start + _FORMAT_AT, last)
        while place >= 0:
            here = place - _FORMAT_AT
            # No log has 2^56 offsets, no batch 2^27 bytes, and no attributes are that large.
            if not chunk[here] and chunk[here + 8] < 8 and not chunk[place + 5]:
                return here
            place = chunk.find(_FORMAT, place + 1, last)
        return -1

    def _whole(self, disk: Disk, handle: Handle, position: int, size: int) -> int:
        """The size of the valid batch that begins here, or 0."""
        head = disk.files.pread(handle.use(), HEADER_SIZE, position)
        base, length, _, _, checksum, _, delta, _, _, count = SCANNED.unpack(head)
        whole = length + LENGTH_OVERHEAD
        if (
            not MIN_LENGTH <= length <= size - position - LENGTH_OVERHEAD
            or base < self._next_offset
            or not 0 <= count <= delta + 1
        ):
            return 0
        data = disk.files.pread(handle.use(), whole, position)
        if crc32c(memoryview(data)[CRC_START:]) != checksum:
            self._budget -= whole
            return 0
        if not self.batches:
            self.first_offset = base
        self.batches += 1
        self.last_offset = base + delta
        self._next_offset = base + delta + 1
        return int(whole)

    def line(self) -> str:
        """The line for the report, or an empty string."""
        if not self.batches:
            return ""
        return (
            f"; {self.batches} valid batches after it, "
            f"offsets {self.first_offset} to {self.last_offset}, are truncated, too"
        )
