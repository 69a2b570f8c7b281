"""The logs of replicas of partitions as the invariants see them, read from the files."""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.records.header import LENGTH_OVERHEAD
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.storage.log import Log
    from kraftlog_simulator.files import MemoryFiles


class StoredBatch(Value):
    """A batch as it is in a file."""

    base: int
    #: The offset after its last record.
    end: int
    epoch: int
    data: bytes

    @property
    def values(self) -> list[tuple[int, int]]:
        """Offset and value of each record of a client."""
        records = read_records(self.data)
        return [
            (record.offset, int(record.value))
            for record in records
            if record.key is None and record.value
        ]


class ReplicaLog:
    """One replica's log of one partition; it outlives the process, as the files do."""

    __slots__ = (
        "bases",
        "batches",
        "first_epoch",
        "is_known",
        "log",
        "read_position",
        "start",
        "truncations",
    )

    def __init__(self, first_epoch: int = 0) -> None:
        #: The first leader epoch of the partition, which tells it from a removed one (V11).
        self.first_epoch = first_epoch
        #: The process's log and its `truncations` at the last read; None: read all of it again.
        self.log: Log | None = None
        self.truncations = -1
        self.start = 0
        self.batches: list[StoredBatch] = []
        self.bases: list[int] = []
        #: The segment of the last batch, and the position after the batch.
        self.read_position = (-1, 0)
        #: False after a power loss, until the next start.
        self.is_known = True

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    @property
    def epoch_starts(self) -> list[tuple[int, int]]:
        """The leader epochs of the batches, each with the first offset of the epoch's batches."""
        starts: list[tuple[int, int]] = []
        for batch in self.batches:
            if not starts or batch.epoch != starts[-1][0]:
                starts.append((batch.epoch, batch.base))
        return starts

    def forget(self) -> None:
        """The machine has lost power: only the next start shows what is left in the files."""
        self.is_known = False
        self.log = None

    def refresh(self, files: MemoryFiles, log: Log) -> bool:
        """Read new batches; return whether the batches that were read before have changed."""
        if log is self.log and log.truncations == self.truncations:
            if log.start_offset > self.start:
                self._drop_before(log.start_offset)
            if log.end_offset > self.end:
                self._read(files, log)
            return False
        before = self.batches
        self.log, self.truncations, self.is_known = log, log.truncations, True
        self.start = log.start_offset
        self.batches, self.bases, self.read_position = [], [], (-1, 0)
        self._read(files, log)
        self._drop_before(self.start)
        return self.batches[: len(before)] != before

    def _drop_before(self, start: int) -> None:
        self.start = start
        count = 0
        while count < len(self.batches) and self.batches[count].end <= start:
            count += 1
        del self.batches[:count], self.bases[:count]

    def _read(self, files: MemoryFiles, log: Log) -> None:
        first, position = self.read_position
        for segment in log.segments:
            base = segment.base_offset
            if base < first:
                continue
            begin = position if base == first else 0
            content = files.file(f"{log.folder}/{base:020d}.log").content
            end = segment.size
            for batch_position, fields in walk(content, begin, end):
                base_offset, length, epoch, _, _, _, last_offset_delta, *_ = fields
                batch_end = batch_position + LENGTH_OVERHEAD + length
                data = bytes(memoryview(content)[batch_position:batch_end])
                end_offset = base_offset + last_offset_delta + 1
                self.batches.append(StoredBatch(base_offset, end_offset, epoch, data))
                self.bases.append(base_offset)
            self.read_position = base, end

    def batch_at(self, base: int) -> StoredBatch | None:
        position = bisect_left(self.bases, base)
        if position < len(self.bases) and self.bases[position] == base:
            return self.batches[position]
        return None

    def after(self, start: int) -> list[StoredBatch]:
        """The batches with records from an offset on."""
        return [batch for batch in self.batches if batch.end > start]

    def between(self, start: int, end: int) -> Iterator[StoredBatch]:
        """The batches from `start` on that end at `end` or before."""
        for position in range(bisect_left(self.bases, start), len(self.batches)):
            batch = self.batches[position]
            if batch.end > end:
                return
            yield batch
