"""The two sparse indexes of a segment in Kafka's format: sorted entries of fixed size.

    offset index   int32 relative offset of a batch's last record, int32 position of the batch
    time index     int64 largest timestamp so far, int32 relative offset of its batch's last record

The active segment's indexes are in memory and are written when it is sealed: after a crash the
segment is scanned anyway. Sealed ones are searched on disk, by reads of a few bytes.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.storage.disk import Disk, Handle

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


def _first(entry: tuple[int, int]) -> int:
    return entry[0]


def _second(entry: tuple[int, int]) -> int:
    return entry[1]


class Index:
    """Entries in memory (`data`) or in a file (`handle`); subclasses define their meaning."""

    __slots__ = ("_disk", "_handle", "count", "data")

    entry = OFFSET_ENTRY

    def __init__(self, data: bytearray | None = None) -> None:
        self.data: bytearray | None = bytearray() if data is None else data
        self.count = len(data) // self.entry.size if data is not None else 0
        self._disk: Disk | None = None
        self._handle: Handle | None = None

    def attach(self, disk: Disk, handle: Handle, count: int) -> None:
        """Use the entries in a file instead of in memory."""
        self.data = None
        self._disk, self._handle, self.count = disk, handle, count

    def renamed(self, path: str) -> None:
        """Use the file's new path after its folder was renamed."""
        if self._handle is not None:
            self._handle.path = path

    def load(self) -> bytearray:
        """Load the entries into memory, to append to them."""
        if self.data is None:
            self.data = bytearray(self._read(0, self.count * self.entry.size))
            self.detach()
        return self.data

    def detach(self) -> None:
        """Close the file."""
        if self._handle is not None:
            self._handle.release()
        self._disk = self._handle = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[int, int]:
        size = self.entry.size
        if self.data is not None:
            first, second = self.entry.unpack_from(self.data, number * size)
        else:
            first, second = self.entry.unpack(self._read(number * size, size))
        return first, second

    def last(self) -> tuple[int, int] | None:
        return self[self.count - 1] if self.count else None

    def keep(self, count: int) -> None:
        """Drop the entries after the first `count`."""
        if count < self.count:
            del self.load()[count * self.entry.size :]
            self.count = count

    def _append(self, first: int, second: int) -> None:
        data = self.data if self.data is not None else self.load()
        data += self.entry.pack(first, second)
        self.count += 1

    def _read(self, position: int, size: int) -> bytes:
        assert self._disk is not None
        assert self._handle is not None
        data = self._disk.files.pread(self._handle.use(), size, position)
        if len(data) != size:
            raise OSError(0, f"{self._handle.path} has become shorter")
        return data


class OffsetIndex(Index):
    """Relative offsets and positions, both ascending."""

    __slots__ = ()

    def append(self, relative_offset: int, position: int) -> None:
        self._append(relative_offset, position)

    def extend(self, numbers: list[int]) -> None:
        """Append many entries: relative offset, position, relative offset, ..."""
        data = self.data if self.data is not None else self.load()
        data += struct.pack(f">{len(numbers)}i", *numbers)
        self.count += len(numbers) // 2

    def before_offset(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry whose batch ends at or before the offset."""
        number = bisect_right(self, relative_offset, key=_first)
        return self[number - 1] if number else None

    def before_position(self, position: int) -> tuple[int, int] | None:
        """The last entry at or before a position."""
        number = bisect_right(self, position, key=_second)
        return self[number - 1] if number else None

    def truncate(self, size: int) -> None:
        """Drop the entries beyond a segment's new size."""
        self.keep(bisect_right(self, size - 1, key=_second))


class TimeIndex(Index):
    """Timestamps and relative offsets, both ascending: each timestamp is the largest so far."""

    __slots__ = ()
    entry = TIME_ENTRY

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Append an entry if its timestamp is a new maximum."""
        last = self.last()
        if timestamp >= 0 and (last is None or (timestamp > last[0] and relative_offset > last[1])):
            self._append(timestamp, relative_offset)

    def before_time(self, timestamp: int) -> int:
        """A relative offset such that all records before it are older than `timestamp`."""
        number = bisect_right(self, timestamp - 1, key=_first)
        return self[number - 1][1] if number else 0

    def truncate(self, relative_end: int) -> None:
        """Drop the entries at or after a segment's new end, a relative offset."""
        self.keep(bisect_right(self, relative_end - 1, key=_second))
