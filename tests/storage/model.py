"""Compares a log with a simple model of it, a list of batches, across crashes.

After a crash the model requires:
- All durable batches are found, except those of deleted segments.
- The log is a prefix of one of its states since it was last durable.
- Epochs and producers match the batches.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kraftlog.errors import StorageError
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.header import read_header
from kraftlog.storage.batches import read_marker
from kraftlog.storage.disk import Disk, HandleCache, unlink_if_there
from kraftlog.storage.recovery import open_log, run
from tests.storage.making import FOLDER, SMALL, T0, batch, marker, memory_files, put, read_all

if TYPE_CHECKING:
    from random import Random

    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.log import Log
    from kraftlog_simulator.files import MemoryFiles


class ModelledLog:
    """A log in memory and the list of its expected batches."""

    def __init__(self, config: LogConfig = SMALL) -> None:
        self.files: MemoryFiles = memory_files()
        self.config = config
        self.epoch = 0
        self.next_sequence: dict[int, int] = {}
        self.open_transactions: set[int] = set()
        #: All appended batches, also those of deleted segments, which may reappear.
        self.written: list[bytes] = []
        self.end = 0
        self.start = 0
        #: The highest log start offset of the `possible` states; a power loss may restore it.
        self.furthest_start = 0
        #: The states since the log was last durable; a crash may leave any of them.
        self.possible: list[list[bytes]] = [[]]
        self.durable: list[bytes] = []
        #: The offset in the recovery-point checkpoint.
        self.stored_point = 0
        self.has_dropped_batches = False
        self.sync_failed = False
        self.log: Log = self._open(clean=False)

    def _open(self, *, clean: bool, start_offset: int = 0) -> Log:
        self.disk = Disk(self.files, HandleCache(self.files, 4))
        log, self.report = run(
            open_log(
                self.disk,
                FOLDER,
                self.config,
                clean=clean,
                recovery_point=self.stored_point,
                start_offset=start_offset,
                distrust_cache=self.sync_failed,
            )
        )
        log.before_truncation = self._lower_stored_point
        self.sync_failed = False
        return log

    def _lower_stored_point(self, offset: int) -> None:
        self.stored_point = min(self.stored_point, offset)

    @property
    def batches(self) -> list[bytes]:
        """The expected content of the log."""
        return [data for data in self.written if read_header(data).last_offset >= self.start]

    # -- operations ----------------------------------------------------------------------------

    def append(
        self, counts: list[int], producer_id: int = -1, *, transactional: bool = False
    ) -> None:
        """Append batches with these numbers of records."""
        new_batches, offset = [], self.end
        for count in counts:
            sequence = self.next_sequence.get(producer_id, 0)
            new_batches.append(
                batch(
                    offset,
                    count,
                    epoch=self.epoch,
                    size=7 * count,
                    timestamp_ms=T0 + offset,
                    producer_id=producer_id,
                    sequence=sequence,
                    transactional=transactional,
                )
            )
            self.next_sequence[producer_id] = sequence + count
            offset += count
        self._append_batches(new_batches, offset)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        new_batches = [marker(self.end, producer_id, commit=commit, epoch=self.epoch)]
        self._append_batches(new_batches, self.end + 1)

    def _append_batches(self, new_batches: list[bytes], end: int) -> None:
        self.possible.append([*self.written, *new_batches])
        put(self.log, *new_batches)
        self.written, self.end = self.possible[-1], end

    def flush(self) -> None:
        self.log.flush()
        self._note_durable()
        self.stored_point = self.log.recovery_point

    def _note_durable(self) -> None:
        self.durable = list(self.written)
        self.possible = [list(self.written)]
        self.furthest_start = self.start

    def truncate(self, offset: int) -> None:
        kept = [data for data in self.written if read_header(data).last_offset < offset]
        if offset < self.end:
            self.possible.append(kept)
            self.durable = [data for data in self.durable if data in kept]
        self.furthest_start = max(self.furthest_start, self.start)
        end = self.log.truncate_to(offset)
        self.written, self.end = kept, end
        self.epoch += 1
        self.start = min(self.start, end)

    def truncate_fully(self, offset: int) -> None:
        self.possible.append([])
        self.durable = []
        self.log.truncate_fully_and_start_at(offset)
        self.written, self.start, self.end = [], offset, offset
        self.possible = [[]]
        self.furthest_start = offset
        self.has_dropped_batches = False
        self.epoch += 1

    def move_start(self, offset: int) -> None:
        offset = min(offset, self.end)
        self.has_dropped_batches = True
        self.start = max(self.start, offset)
        self.log.move_start(offset)
        self._unlink_garbage()

    def delete_old_segments(self, keep_bytes: int) -> None:
        self.has_dropped_batches = True
        self.start = self.end  # until it is known which segments were deleted
        self.log.config = self.config.replace(retention_bytes=keep_bytes)
        before = self.log.start_offset
        self.log.delete_old_segments(T0, self.end)
        self.start = max(before, self.log.start_offset)
        self._unlink_garbage()

    def _unlink_garbage(self) -> None:
        for path in self.log.garbage:
            unlink_if_there(self.files, path)
        self.log.garbage.clear()

    def close_and_open(self) -> None:
        self.log.close()
        self._note_durable()
        self.stored_point = self.log.recovery_point
        self.log = self._open(clean=True, start_offset=self.log.start_offset)
        assert not self.report.is_noteworthy, self.report.line()
        assert self.report.scanned_bytes == 0
        self.check()

    # -- crashes -------------------------------------------------------------------------------

    def fail_to_flush(self) -> None:
        """Flush with a failing sync; the log must be offline afterwards."""
        job = self.log.flush_job()
        if job is None:
            return
        job.run(self.files)
        assert job.error is not None
        for _ in range(2):
            with contextlib.suppress(StorageError):
                self.log.flushed(job) if self.log._flushing else self.log.flush()
                raise AssertionError("a failed sync was reported as a success")
        self.sync_failed = True

    def crash(self, random: Random | None, *, power: bool) -> None:
        """Kill the process or the machine, recover, and compare."""
        if power:
            self.files.power_loss(random)
        else:
            self.files.kill()
        self.log = self._open(clean=False)
        self._compare_after_crash(self.log)

    def _compare_after_crash(self, log: Log) -> None:
        recovered = read_all(log, 300)
        first = log.start_offset
        self.furthest_start = furthest = max(self.furthest_start, self.start)
        assert first <= furthest or not recovered or first == log.end_offset, (
            f"the start of the log is lost: {first}, {furthest}"
        )
        durable = batches_from(self.durable, furthest)
        recovered_from_start = batches_from(recovered, furthest)
        assert recovered_from_start[: len(durable)] == durable, "durable records are lost"
        matching_states = [
            state
            for state in self.possible
            if batches_from(state, first)[: len(recovered)] == recovered
        ]
        assert matching_states, "the log never had these records"
        # The newest state also has the segments that were deleted before the log's start. Their
        # deletion may not be durable: a power loss brings them back, before newer records.
        front = [data for data in matching_states[-1] if read_header(data).last_offset < first]
        self.written, self.start, self.end = front + recovered, first, log.end_offset
        self.durable = [data for data in self.durable if data in self.written]
        self.possible.append(list(self.written))
        self.epoch += 1
        self.next_sequence = {
            producer_id: (entry.last_sequence + 1) & 0x7FFFFFFF
            for producer_id, entry in log.producers.entries.items()
        }
        self.check()

    # -- comparison ----------------------------------------------------------------------------

    def check(self) -> None:
        """Compare the log with the model."""
        log = self.log
        assert log.end_offset == self.end
        batches = read_all(log, 250)
        assert batches == self.batches
        epochs: list[tuple[int, int]] = []
        for data in batches:
            header = read_header(data)
            if not epochs or epochs[-1][0] != header.leader_epoch:
                epochs.append((header.leader_epoch, max(header.base_offset, log.start_offset)))
        if batches:
            assert log.epochs == EpochCache(epochs)
        for data in self.batches[:: max(1, len(self.batches) // 5)]:
            header = read_header(data)
            assert log.locate(header.last_offset, 1, log.end_offset) is not None
        if not self.has_dropped_batches:
            state = ProducerState()
            for data in batches:
                header = read_header(data)
                if header.producer_id >= 0:
                    state.apply(header, read_marker(data, 0) if header.is_control else None)
            assert producer_values(log.producers) == producer_values(state)
            assert log.producers.ongoing == state.ongoing


def batches_from(state: list[bytes], start: int) -> list[bytes]:
    return [data for data in state if read_header(data).last_offset >= start]


def producer_values(state: ProducerState) -> dict[int, tuple[int, ...]]:
    """The part of a producer state that a snapshot has."""
    return {
        producer_id: (
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
        for producer_id, entry in sorted(state.entries.items())
    }
