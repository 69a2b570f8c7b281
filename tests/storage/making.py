"""Batches and logs for the storage tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.records.builder import build_batch
from kraftlog.records.header import LENGTH_OVERHEAD
from kraftlog.records.record import Record
from kraftlog.records.walk import walk
from kraftlog.storage.batches import describe, split_by_epoch
from kraftlog.storage.config import LogConfig
from kraftlog.storage.disk import Disk, HandleCache
from kraftlog.storage.recovery import open_log, run
from kraftlog_simulator.files import MemoryFiles
from tests.records.end_markers import build_end_marker

if TYPE_CHECKING:
    from kraftlog.ports.files import Files
    from kraftlog.storage.log import Log
    from kraftlog.storage.recovery import RecoveryReport

FOLDER = "/data/t-0"
#: Segments of a few batches, with an index entry for nearly every batch.
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1, contiguous=True)
T0 = 1_700_000_000_000


def batch(
    offset: int,
    count: int = 1,
    *,
    epoch: int = 0,
    size: int = 20,
    timestamp_ms: int = T0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> bytes:
    """A batch of `count` records from `offset`, a millisecond apart."""
    records = [
        Record(offset + i, timestamp_ms + i, b"k", bytes([offset % 251]) * size)
        for i in range(count)
    ]
    if producer_id < 0:
        return build_batch(records, leader_epoch=epoch)
    return build_batch(
        records,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(
    offset: int, producer_id: int, *, commit: bool, epoch: int = 0, producer_epoch: int = 0
) -> bytes:
    """The control batch that ends a transaction."""
    return build_end_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=7,
        timestamp_ms=T0,
        base_offset=offset,
        leader_epoch=epoch,
    )


def new_disk(files: Files | None = None, limit: int = 64) -> Disk:
    files = files if files is not None else memory_files()
    return Disk(files, HandleCache(files, limit))


def memory_files() -> MemoryFiles:
    """A file system with an empty, durable directory for a log."""
    files = MemoryFiles()
    files.make_folder("/data")
    files.make_folder(FOLDER)
    files.write_back()
    return files


def open_log_on(
    disk: Disk,
    config: LogConfig = SMALL,
    *,
    folder: str = FOLDER,
    clean: bool = False,
    recovery_point: int = 0,
) -> tuple[Log, RecoveryReport]:
    return run(open_log(disk, folder, config, clean=clean, recovery_point=recovery_point))


def put(log: Log, *batches: bytes, now_ms: int = T0) -> None:
    """Append batches, each as a buffer of its own."""
    log.append(list(batches), describe(batches), now_ms)


def fill(log: Log, count: int, *, epoch: int = 0, size: int = 20) -> list[bytes]:
    """Append `count` batches of one to three records, one at a time; return them."""
    written = []
    for number in range(count):
        data = batch(
            log.end_offset,
            1 + number % 3,
            epoch=epoch,
            size=size,
            timestamp_ms=T0 + 10 * log.end_offset,
        )
        put(log, data)
        written.append(data)
    return written


def read_all(log: Log, max_bytes: int = 1 << 20) -> list[bytes]:
    """Read every batch of a log as a consumer does."""
    batches: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        place = log.locate(offset, max_bytes, log.end_offset)
        if place is None:
            break
        data = log.read(place)
        for part in split_by_epoch(data):
            for position, (base, length, _, _, _, _, delta, *_) in walk(part):
                end = position + length + LENGTH_OVERHEAD
                batches.append(bytes(part[position:end]))
                offset = base + delta + 1
    return batches
