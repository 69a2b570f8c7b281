"""What the invariants see of the replicas of partitions: their logs, read from the files."""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.simulator.files import MemoryFiles
    from kraftlog.storage.log import Log

LENGTH_OVERHEAD = 12


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
        return [(it.offset, int(it.value)) for it in records if it.key is None and it.value]


class ReplicaLog:
    """One replica's log of one partition; it outlives the process, as the files do."""

    __slots__ = (
        "bases",
        "batches",
        "first_epoch",
        "is_known",
        "log",
        "place",
        "start",
        "truncations",
    )

    def __init__(self, first_epoch: int = 0) -> None:
        #: The first leader epoch of the partition; one of its number may have been removed before.
        self.first_epoch = first_epoch
        self.log: Log | None = None
        self.truncations = -1
        self.start = 0
        self.batches: list[StoredBatch] = []
        self.bases: list[int] = []
        #: The segment and the position behind the last batch.
        self.place = (-1, 0)
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
        """The machine has lost power: what the files will have is known at the next start."""
        self.is_known = False
        self.log = None

    def look(self, files: MemoryFiles, log: Log) -> bool:
        """Read what is new; return whether batches that were there before may be gone."""
        if log is self.log and log.truncations == self.truncations:
            if log.start_offset > self.start:
                self._drop_before(log.start_offset)
            if log.end_offset > self.end:
                self._read(files, log)
            return False
        before = self.batches
        self.log, self.truncations, self.is_known = log, log.truncations, True
        self.start = log.start_offset
        self.batches, self.bases, self.place = [], [], (-1, 0)
        self._read(files, log)
        self._drop_before(self.start)
        return self.batches[: len(before)] != before

    def _drop_before(self, start: int) -> None:
        self.start = start
        gone = 0
        while gone < len(self.batches) and self.batches[gone].end <= start:
            gone += 1
        del self.batches[:gone], self.bases[:gone]

    def _read(self, files: MemoryFiles, log: Log) -> None:
        first, position = self.place
        for segment in log.segments:
            base = segment.base_offset
            if base < first:
                continue
            begin = position if base == first else 0
            content = files.file(f"{log.folder}/{base:020d}.log").content
            end = segment.size
            for place, fields in walk(content, begin, end):
                after = place + LENGTH_OVERHEAD + fields[1]
                data = bytes(memoryview(content)[place:after])
                self.batches.append(
                    StoredBatch(fields[0], fields[0] + fields[6] + 1, fields[2], data)
                )
                self.bases.append(fields[0])
            self.place = base, end

    def batch_at(self, base: int) -> StoredBatch | None:
        position = bisect_left(self.bases, base)
        if position < len(self.bases) and self.bases[position] == base:
            return self.batches[position]
        return None

    def after(self, start: int) -> list[StoredBatch]:
        """The batches with records from an offset on."""
        return [batch for batch in self.batches if batch.end > start]

    def between(self, start: int, end: int) -> Iterator[StoredBatch]:
        """The batches from an offset on that end before another."""
        for position in range(bisect_left(self.bases, start), len(self.batches)):
            batch = self.batches[position]
            if batch.end > end:
                return
            yield batch
