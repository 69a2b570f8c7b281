"""Logs in memory behind the `LogReader` interface, written as text: `1:abc 2:d`.

Each letter is a batch of one record, and the number before a group is its leader epoch; `.` is an
offset without a record, as compaction leaves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import BatchHeader, read_header
from kraftlog.records.reader import read_records

if TYPE_CHECKING:
    from kraftlog.replication.partition import PartitionAppend
    from kraftlog.types import LogName


def make_batch(
    value: str, *, producer: tuple[int, int, int] | None = None, base: int = 0, epoch: int = -1
) -> bytearray:
    """A batch with a record for each letter; `producer` is its id, epoch and base sequence."""
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    builder = BatchBuilder(
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )
    for letter in value:
        builder.append(1000, None, letter.encode())
    return bytearray(builder.build())


class MemoryLog:
    """One log: whole batches in the order of their offsets, epochs and producer state."""

    def __init__(self, text: str = "", start: int = 0) -> None:
        self.start = self.end = start
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.epochs = EpochCache()
        for group in text.split():
            epoch, _, letters = group.partition(":")
            for letter in letters:
                if letter == ".":
                    self.end += 1
                else:
                    self._add(make_batch(letter, base=self.end, epoch=int(epoch)))

    def _add(self, batch: bytes | bytearray | memoryview) -> None:
        header = read_header(batch)
        assert header.base_offset >= self.end, "offsets grow"
        assert header.leader_epoch >= self.epochs.latest, "epochs grow"
        self.epochs.assign(header.leader_epoch, header.base_offset)
        self.batches.append((header, bytes(batch)))
        self.end = header.next_offset

    @classmethod
    def of(cls, batches: bytes) -> MemoryLog:
        """A log with these batches alone."""
        log = cls(start=read_header(batches).base_offset if batches else 0)
        log._extend(batches)
        return log

    def _extend(self, batches: bytes) -> None:
        position = 0
        while position < len(batches):
            size = 12 + int.from_bytes(batches[position + 8 : position + 12], "big")
            self._add(batches[position : position + size])
            position += size

    def append(self, append: PartitionAppend) -> int:
        """Write the batches of a turn's append; return the new log end."""
        written = b"".join(append.buffers)
        assert len(written) == append.size
        count = len(self.batches)
        self._extend(written)
        assert {header.leader_epoch for header, _ in self.batches[count:]} == {append.epoch}
        assert self.end == append.end
        return self.end

    def truncate(self, offset: int) -> None:
        """Truncate to the offset, or to the start of the batch that holds it."""
        while self.batches and self.batches[-1][0].next_offset > offset:
            offset = min(offset, self.batches.pop()[0].base_offset)
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.epochs.truncate_from_end(self.end)

    def restart(self, offset: int) -> None:
        """Delete everything and continue at the offset."""
        self.batches.clear()
        self.epochs.clear()
        self.start = self.end = offset

    def move_start(self, offset: int) -> None:
        """Delete the records below an offset; a batch that holds it stays."""
        self.start = max(self.start, offset)
        self.batches = [kept for kept in self.batches if kept[0].next_offset > self.start]
        self.epochs.truncate_from_start(self.start)

    @property
    def producers(self) -> ProducerState | None:
        """Producer state as recovery would rebuild it, or None without producers."""
        state = ProducerState()
        for header, _ in self.batches:
            if header.producer_id >= 0:
                state.apply(header)
        return state if state.entries else None

    def records(self, before: int | None = None) -> dict[int, tuple[int, bytes]]:
        """Offset -> leader epoch and value, of the records from the log start on."""
        limit = self.end if before is None else before
        return {
            record.offset: (header.leader_epoch, bytes(record.value or b""))
            for header, batch in self.batches
            for record in read_records(batch)
            if self.start <= record.offset < limit
        }

    def __str__(self) -> str:
        text, last_epoch, next_offset = "", None, self.start
        for offset, (epoch, value) in self.records().items():
            text += "." * (offset - next_offset)
            if epoch != last_epoch:
                text += f"{' ' if text else ''}{epoch}:"
                last_epoch = epoch
            text += value.decode()
            next_offset = offset + 1
        return text


class SlicedBatches(bytes):
    """Batches with the interface of a host's file slice."""

    def pin(self) -> None:
        """Nothing to do: there is no file to keep open."""

    def read(self) -> bytes:
        return self

    def release(self) -> None:
        """Nothing to do: there is no file to close."""


class MemoryDirectory:
    """The log directory of a broker."""

    id = bytes(16)


class MemoryLogs:
    """All logs of a broker: its `LogReader`, and its disk, which survives a crash."""

    directories = ()

    def __init__(self) -> None:
        self.directory = MemoryDirectory()
        self.by_name: dict[LogName, MemoryLog] = {}
        self.topic_ids: dict[LogName, bytes] = {}
        #: The high watermarks in the checkpoint file (V15).
        self.high_watermarks: dict[LogName, int] = {}

    def locate(
        self, log: LogName, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> bytes | None:
        batches = b""
        for header, batch in self.by_name[log].batches:
            if header.next_offset <= offset or header.next_offset > limit:
                continue
            if len(batches) + len(batch) > max_bytes and (batches or not at_least_one):
                break
            batches += batch
        return SlicedBatches(batches) if batches else None

    def end_of_epoch(self, log: LogName, epoch: int) -> tuple[int, int]:
        memory_log = self.by_name[log]
        return memory_log.epochs.end_offset_for(
            min(epoch, memory_log.epochs.latest), memory_log.end
        )

    def directory_of(self, _: LogName) -> MemoryDirectory:
        return self.directory

    def latest_epoch(self, log: LogName) -> int:
        return self.by_name[log].epochs.latest

    def producers(self, log: LogName) -> Any:
        return self.by_name[log].producers
