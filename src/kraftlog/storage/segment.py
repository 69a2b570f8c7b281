"""One segment of a log: a file of batches, and its indexes.

The last segment of a log is active: it grows, and its indexes are in memory. The others are sealed:
complete files that are only read, and deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from kraftlog.errors import CorruptLogError
from kraftlog.records.header import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, MIN_LENGTH
from kraftlog.storage.batches import BATCH_EXTENT
from kraftlog.storage.config import DEFAULT_CONFIG, MAX_RELATIVE_OFFSET
from kraftlog.storage.disk import unlink_if_there, write_whole
from kraftlog.storage.index import OffsetIndex, TimeIndex
from kraftlog.storage.scan import Scan, scan_file
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.storage.batches import Batches
    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.disk import Disk, Handle
    from kraftlog.storage.transactions import AbortedTransaction
    from kraftlog.types import Buffer

LOG, INDEX, TIME_INDEX = ".log", ".index", ".timeindex"
TRANSACTION_INDEX, SNAPSHOT = ".txnindex", ".snapshot"
DELETED = ".deleted"
#: the read size for headers: usually enough to reach the next index entry
_WALK_BYTES = 8192
#: How many of the positions marked last a segment keeps: between this many and twice as many.
_MARKS = 1024
#: Shared by all segments without marks, because many are idle.
_NO_MARKS: dict[int, int] = {}


def file_name(offset: int, ending: str) -> str:
    """Kafka's name for a file of a log: twenty digits."""
    return f"{offset:020d}{ending}"


class SegmentSlice(Value):
    """Whole batches in a file; pin the handle to keep it beyond this turn of the event loop."""

    handle: Handle
    position: int
    length: int


class Segment:
    """A file of batches from `base_offset` to `end_offset`."""

    __slots__ = (
        "_disk",
        "_marks",
        "_offsets",
        "_old_marks",
        "_stem",
        "_times",
        "aborted",
        "allocated",
        "base_offset",
        "created_ms",
        "end_offset",
        "first_timestamp",
        "has_index_files",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "since_entry",
        "size",
    )

    def __init__(self, disk: Disk, folder: str, base_offset: int) -> None:
        self._disk = disk
        self._stem = f"{folder}/{base_offset:020d}"
        self.log = disk.handle(self._stem + LOG)
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        #: Where preallocated blocks end; -1 once an allocation has failed, so that none is retried.
        self.allocated = 0
        self.created_ms = 0
        #: The largest timestamp of the first append, or, after a scan, of the first batch:
        #: `segment.ms` counts from it.
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        #: Bytes since the last entry of the offset index.
        self.since_entry = 0
        #: Whether the indexes are read from their files; otherwise they are in memory.
        self.has_index_files = False
        self.aborted: list[AbortedTransaction] | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        # offset -> position, as marked last: where appends ended, and the limits of fetches
        self._marks = _NO_MARKS
        self._old_marks = _NO_MARKS

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}..{self.end_offset}, {self.size} bytes)"

    def renamed(self, folder: str) -> None:
        """The folder was renamed to this one; open files stay open."""
        self._stem = f"{folder}/{self.base_offset:020d}"
        self.log.path = self._stem + LOG
        for index, ending in ((self._offsets, INDEX), (self._times, TIME_INDEX)):
            if index is not None:
                index.renamed(self._stem + ending)

    def path(self, ending: str) -> str:
        return self._stem + ending

    # -- appending --------------------------------------------------------------------------------

    def reopen(self) -> None:
        """Load the indexes into memory; their files are outdated until the segment is sealed."""
        if self.has_index_files:
            self.offsets.load()
            self.times.load()
            self.has_index_files = False

    def note(self, buffers: Sequence[Buffer], batches: Batches, interval_bytes: int) -> None:
        """Update the metadata and indexes for batches that have been written at the end.

        The indexes must be in memory (`reopen`).
        """
        if batches.max_timestamp > self.max_timestamp:
            self.max_timestamp = batches.max_timestamp
            self.max_timestamp_offset = batches.max_timestamp_offset
        if self.size == 0:
            self.first_timestamp = batches.max_timestamp
        if self.since_entry + batches.size_bytes > interval_bytes:
            self._index(buffers, interval_bytes)
        else:
            self.since_entry += batches.size_bytes
        self.size += batches.size_bytes
        self.end_offset = batches.last_offset + 1
        self.mark(self.end_offset, self.size)

    def _index(self, buffers: Sequence[Buffer], interval_bytes: int) -> None:
        """Index each buffer that starts more than the interval after the last indexed position.

        Only buffers larger than the interval are parsed, to index batches within them, too: a turn
        has thousands of small ones.
        """
        starts = list(accumulate(map(len, buffers), initial=self.size))
        end, unpack = len(buffers), BATCH_EXTENT.unpack_from
        due_position = self.size - self.since_entry + interval_bytes
        entries: list[int] = []
        number, indexed_within = 0, -1
        while True:
            number = bisect_right(starts, due_position, number)
            if number > end:
                break
            before = number - 1
            if before > indexed_within and starts[number] - starts[before] > interval_bytes:
                indexed_within = before
                due_position = self._index_within(
                    buffers[before], starts[before], due_position, interval_bytes, entries
                )
                continue
            if number == end:
                break
            base, _, delta = unpack(buffers[number], 0)
            entries += (base + delta - self.base_offset, starts[number])
            due_position = starts[number] + interval_bytes
        if entries:
            self.offsets.extend(entries)
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.since_entry = starts[end] - (due_position - interval_bytes)

    def _index_within(
        self, buffer: Buffer, start: int, due_position: int, interval_bytes: int, entries: list[int]
    ) -> int:
        """Index the batches of one large buffer; return where the next entry is due."""
        unpack, pos = BATCH_EXTENT.unpack_from, 0
        while pos < len(buffer):
            base, length, delta = unpack(buffer, pos)
            if start + pos > due_position:
                entries += (base + delta - self.base_offset, start + pos)
                due_position = start + pos + interval_bytes
            pos += length + LENGTH_OVERHEAD
        assert pos == len(buffer), "a buffer must end where a batch ends"
        return due_position

    def mark(self, offset: int, position: int) -> None:
        """Remember that the batch with this offset starts at this position."""
        if len(self._marks) >= _MARKS or self._marks is _NO_MARKS:
            self._old_marks, self._marks = self._marks, {}
        self._marks[offset] = position

    # -- searching --------------------------------------------------------------------------------

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._offsets = OffsetIndex()
            if self.has_index_files:
                self._attach(self._offsets, INDEX)
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._times = TimeIndex()
            if self.has_index_files:
                self._attach(self._times, TIME_INDEX)
        return self._times

    def _attach(self, index: OffsetIndex | TimeIndex, ending: str) -> None:
        path = self._stem + ending
        size = self._disk.files.size_of(path)
        index.attach(self._disk, self._disk.handle(path), size // index.entry.size)

    def position_of(self, offset: int) -> int:
        """The position of the first batch that contains `offset` or a later one, or the size."""
        if offset <= self.base_offset:
            return 0
        if offset >= self.end_offset:
            return self.size
        position = self._marks.get(offset) or self._old_marks.get(offset)
        if position is not None:
            return position
        entry = self.offsets.before_offset(offset - self.base_offset)
        if entry is not None and not self.is_valid_entry(entry):
            self.rebuild()
            return self.position_of(offset)
        return self._walk_to(offset, entry[1] if entry else 0)

    def _walk_to(self, offset: int, position: int) -> int:
        """The position of the first batch that contains `offset` or a later one, or the size.

        The search begins at `position`. It does less per batch than `walk`, because fetches use it.
        """
        files, unpack = self._disk.files, BATCH_EXTENT.unpack_from
        while position < self.size:
            chunk = files.pread(self.log.use(), _WALK_BYTES, position)
            in_chunk, end = 0, min(len(chunk), self.size - position) - HEADER_SIZE
            while in_chunk <= end:
                base, length, delta = unpack(chunk, in_chunk)
                if base + delta >= offset:
                    return position + in_chunk
                if length < MIN_LENGTH:
                    raise self.corrupt(position + in_chunk, "no whole record batch")
                in_chunk += length + LENGTH_OVERHEAD
            if in_chunk == 0:
                raise self.corrupt(position, "no whole record batch")
            position += in_chunk
        return self.size

    def is_valid_entry(self, entry: tuple[int, int]) -> bool:
        """Whether an index entry matches the batch at its position."""
        relative_offset, position = entry
        head = self._disk.files.pread(self.log.use(), HEADER_SIZE, position)
        if len(head) < HEADER_SIZE:
            return False
        base, length, _, magic, _, _, delta, *_ = HEADER.unpack(head)
        if magic != MAGIC or not MIN_LENGTH <= length <= self.size - position - LENGTH_OVERHEAD:
            return False
        is_match: bool = (
            self.base_offset <= base <= base + delta <= self.base_offset + relative_offset
        )
        return is_match

    def walk(self, position: int) -> Iterator[tuple[int, int, int, int]]:
        """Position, size, last offset and largest timestamp of each batch from `position` on."""
        files, unpack = self._disk.files, HEADER.unpack_from
        while position < self.size:
            chunk = files.pread(self.log.use(), min(_WALK_BYTES, self.size - position), position)
            in_chunk = 0
            while len(chunk) - in_chunk >= HEADER_SIZE:
                base, length, _, magic, _, _, delta, _, timestamp, _, _, _, _ = unpack(
                    chunk, in_chunk
                )
                size = length + LENGTH_OVERHEAD
                if magic != MAGIC or length < MIN_LENGTH or position + in_chunk + size > self.size:
                    raise self.corrupt(position + in_chunk, "no whole record batch")
                yield position + in_chunk, size, base + delta, timestamp
                in_chunk += size
            if in_chunk == 0:
                raise self.corrupt(position, "no whole record batch")
            position += in_chunk

    def end_within(self, start: int, end: int, max_bytes: int) -> int:
        """The end of whole batches of at most `max_bytes` from `start`; at least one batch.

        If not all of it fits, the end is the last index entry in that range, or else the last batch
        boundary.
        """
        if end - start <= max_bytes:
            return end
        entry = self.offsets.before_position(start + max_bytes)
        if entry is not None and entry[1] > start:
            if self.is_valid_entry(entry):
                return entry[1]
            self.rebuild()
            return self.end_within(start, end, max_bytes)
        boundary = start
        for batch_position, size, _, _ in self.walk(start):
            if batch_position > start and batch_position + size > start + max_bytes:
                break
            boundary = batch_position + size
        return min(boundary, end)

    def corrupt(self, position: int, problem: str) -> CorruptLogError:
        return CorruptLogError(f"{self.log.path}: {problem} at position {position} of {self.size}")

    # -- changing ---------------------------------------------------------------------------------

    def take(self, scan: Scan) -> None:
        """Use the metadata and indexes that a scan has rebuilt."""
        self.size = scan.position
        self.end_offset = scan.next_offset
        self.first_timestamp = scan.first_timestamp
        self.max_timestamp = scan.max_timestamp
        self.max_timestamp_offset = scan.max_timestamp_offset
        self.since_entry = scan.since_entry
        self._offsets, self._times = scan.offsets, scan.times
        self.has_index_files = False
        self._marks = self._old_marks = _NO_MARKS

    def rebuild(self) -> None:
        """Rebuild the indexes at once, after a lookup has found them wrong."""
        for _ in self._index_in_steps(DEFAULT_CONFIG.index_interval_bytes):
            pass
        if self._disk.failure is not None:
            return  # nothing is written any more
        try:
            self.write_indexes()
        except OSError as error:  # else the lookup would report a failed read
            where = f"{error.filename or self.log.path}: writing rebuilt indexes"
            raise self._disk.fail_unless_full(where, error) from error

    def rebuild_in_steps(self, interval_bytes: int) -> Iterator[int]:
        """Rebuild the indexes from the batches, chunk by chunk."""
        yield from self._index_in_steps(interval_bytes)
        self.write_indexes()

    def _index_in_steps(self, interval_bytes: int) -> Iterator[int]:
        """Find the index entries in the batches, chunk by chunk, without writing them."""
        scan = Scan(self.base_offset, interval_bytes, with_crc=False)
        size = self.size
        yield from scan_file(self._disk, self.log, size, scan)
        if scan.position != size:
            raise self.corrupt(scan.position, scan.problem)
        self.take(scan)

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains `offset`, and all after it."""
        position = self.position_of(offset)
        self.reopen()
        self.remove_index_files()
        self._disk.files.truncate(self.log.use(), position)
        self.size, self.allocated = position, 0
        self._marks = self._old_marks = _NO_MARKS
        self.offsets.truncate(position)
        self._find_end()
        if self.aborted is not None:
            self.aborted = [entry for entry in self.aborted if entry.last_offset < self.end_offset]

    def _find_end(self) -> None:
        """Recompute the end, the largest timestamp and the distance from the last index entry."""
        base_offset, last = self.base_offset, self.offsets.last()
        self.times.truncate(last[0] + 1 if last else 0)
        newest = self.times.last() or (-1, -1)
        self.max_timestamp, self.max_timestamp_offset = newest[0], newest[1] + base_offset
        walk_from = self.offsets.before_offset(newest[1])
        last_entry = last[1] if last else 0
        self.end_offset, self.since_entry = base_offset, 0
        batches = self.walk(walk_from[1] if walk_from else 0)
        for batch_position, size, last_offset, timestamp in batches:
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
            self.end_offset = last_offset + 1
            self.since_entry = batch_position + size - last_entry
        if not self.size:
            self.first_timestamp = -1

    def seal(self) -> None:
        """Seal the segment: write the indexes, and free preallocated blocks."""
        if self.size:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.write_indexes()
        if self.allocated > self.size:
            self._disk.files.truncate(self.log.use(), self.size)
            self.allocated = 0

    def write_indexes(self) -> None:
        """Write the indexes to their files, which are searched from now on."""
        from kraftlog.storage.transactions import encode_aborted

        files = self._disk.files
        for index, ending in ((self.offsets, INDEX), (self.times, TIME_INDEX)):
            data = bytes(index.load())
            write_whole(files, self.path(ending), data, sync=False)
            index.attach(self._disk, self._disk.handle(self.path(ending)), index.count)
        if self.aborted:
            data = encode_aborted(self.aborted)
            write_whole(files, self.path(TRANSACTION_INDEX), data, sync=False)
        self.has_index_files = True

    def aborted_transactions(self) -> list[AbortedTransaction]:
        """The aborted transactions with a marker in this segment."""
        from kraftlog.storage.transactions import read_aborted

        if self.aborted is None:
            self.aborted = read_aborted(self._disk.files, self.path(TRANSACTION_INDEX))
        return self.aborted

    def index_paths(self) -> list[str]:
        """The files that `write_indexes` has written."""
        endings = [INDEX, TIME_INDEX]
        if self.aborted:
            endings.append(TRANSACTION_INDEX)
        return [self.path(ending) for ending in endings]

    def remove_index_files(self) -> None:
        for ending in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
            unlink_if_there(self._disk.files, self.path(ending))
        self.has_index_files = False

    def release(self) -> None:
        """Close the files."""
        self.log.release()
        for index in (self._offsets, self._times):
            if index is not None:
                index.detach()

    def remove(self) -> str:
        """Remove the segment from the log by renaming its file; return the new name."""
        self.release()
        new_name = self.path(LOG + DELETED)
        self._disk.files.rename(self.path(LOG), new_name)
        self.remove_index_files()
        return new_name


def segment_is_full(segment: Segment, batches: Batches, config: LogConfig, now_ms: int) -> bool:
    """Whether these batches need a new segment."""
    if segment.size == 0:
        return batches.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
    if segment.size > config.segment_bytes - batches.size_bytes:
        return True
    if batches.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if segment.first_timestamp >= 0:
        waited_ms = batches.max_timestamp - segment.first_timestamp
    else:
        waited_ms = now_ms - segment.created_ms
    if waited_ms > config.segment_ms:
        return True
    # An interval has at most one entry of at most twelve bytes, so this usually decides.
    interval_bytes, limit = config.index_interval_bytes, config.segment_index_bytes
    if 12 * (segment.size + batches.size_bytes) < (limit - 36) * interval_bytes:
        return False
    room = limit - 12 * (2 + batches.size_bytes // interval_bytes)
    return segment.offsets.count * 8 > room or segment.times.count * 12 > room
