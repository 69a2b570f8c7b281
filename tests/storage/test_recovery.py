"""Q8, V5, V18: flushed records survive; the rest is truncated after the last valid batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import CorruptLogError, DiskFullError, StorageError
from kraftlog.records.builder import BatchBuilder, build_batch
from kraftlog.records.header import HEADER
from kraftlog.records.record import Record
from kraftlog.storage.config import LogConfig
from kraftlog.storage.recovery import open_log, run
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost
from tests.storage.making import (
    FOLDER,
    SMALL,
    T0,
    batch,
    fill,
    memory_files,
    new_disk,
    open_log_on,
    put,
    read_all,
)
from tests.storage.model import ModelledLog

if TYPE_CHECKING:
    from collections.abc import Callable


def appends(modelled_log: ModelledLog) -> None:
    modelled_log.append([1, 2, 3])
    modelled_log.append([2], producer_id=5)
    modelled_log.flush()
    modelled_log.append([2, 2], producer_id=5)
    modelled_log.append([1])


def rolls(modelled_log: ModelledLog) -> None:
    for number in range(6):
        modelled_log.append([3, 3], producer_id=number % 2)
    modelled_log.flush()
    modelled_log.append([5, 5, 5])
    modelled_log.append([2], producer_id=9, transactional=True)
    modelled_log.append([5, 5, 5])
    modelled_log.end_transaction(9, commit=False)
    modelled_log.log.roll(T0)
    modelled_log.flush()


def truncates(modelled_log: ModelledLog) -> None:
    for _ in range(6):
        modelled_log.append([2, 3, 2])
    modelled_log.flush()
    modelled_log.append([2], producer_id=3)
    modelled_log.truncate(modelled_log.end - 3)
    modelled_log.append([2, 1])
    modelled_log.truncate(9)
    modelled_log.append([2, 3], producer_id=3)
    modelled_log.flush()
    modelled_log.truncate(4)
    modelled_log.append([1])


def deletes_segments(modelled_log: ModelledLog) -> None:
    for _ in range(8):
        modelled_log.append([2, 3, 2])
    modelled_log.flush()
    modelled_log.move_start(20)
    modelled_log.append([4])
    modelled_log.delete_old_segments(700)
    modelled_log.append([4])
    modelled_log.flush()
    modelled_log.move_start(modelled_log.end)
    modelled_log.append([1])


def truncates_fully(modelled_log: ModelledLog) -> None:
    for _ in range(4):
        modelled_log.append([2, 3, 2])
    modelled_log.flush()
    modelled_log.append([2])
    modelled_log.truncate_fully(500)
    modelled_log.append([2])
    modelled_log.flush()


def closes(modelled_log: ModelledLog) -> None:
    modelled_log.append([2, 3, 2], producer_id=1)
    modelled_log.append([5, 5])
    modelled_log.close_and_open()
    modelled_log.append([1])
    modelled_log.close_and_open()


SCRIPTS = [appends, rolls, truncates, deletes_segments, truncates_fully, closes]
#: How the process ends: it is killed; a power loss drops all unflushed writes; a power loss drops
#: a random part of them.
ENDS: list[tuple[str, Callable[[int], Random | None], bool]] = [
    ("kill", lambda _: None, False),
    ("power", lambda _: None, True),
    *[(f"partly-written-{i}", lambda n, i=i: Random(n * 31 + i), True) for i in range(2)],
]


@pytest.mark.parametrize("end", ENDS, ids=[end[0] for end in ENDS])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_crash_before_any_operation_loses_nothing_durable(
    script: Callable[[ModelledLog], None], end: tuple[str, Callable[[int], Random | None], bool]
) -> None:
    _, random, power = end
    operation = 0
    while True:
        modelled_log = ModelledLog()
        modelled_log.files.stop_before = modelled_log.files.operations + operation
        try:
            script(modelled_log)
        except PowerLost:
            modelled_log.crash(random(operation), power=power)
            modelled_log.append([1, 1])
            modelled_log.flush()
            modelled_log.crash(random(operation + 1), power=True)
            operation += 1
        else:
            break
    assert operation > 20


def test_a_crashed_recovery_is_repeated() -> None:
    operation = 0
    while True:
        modelled_log = ModelledLog()
        rolls(modelled_log)
        modelled_log.append([5, 5, 5, 5])
        modelled_log.files.power_loss(Random(operation))
        modelled_log.files.stop_before = modelled_log.files.operations + operation
        try:
            modelled_log.crash(None, power=False)
            modelled_log.files.stop_before = modelled_log.files.operations + operation
            modelled_log.log = modelled_log._open(clean=False)
        except PowerLost:
            modelled_log.crash(Random(operation), power=True)
            operation += 1
        else:
            break
    assert operation > 10


def test_a_partial_last_batch_is_truncated_and_reported() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 2)
    log.flush()
    size = log.segments[0].size
    put(log, batch(log.end_offset, 1, size=100))
    fd = log.segments[0].log.use()
    files.truncate(fd, size + 150)
    files.kill()
    again, report = open_log_on(new_disk(files), recovery_point=log.recovery_point)
    assert read_all(again) == written
    assert report.truncated_bytes == 150
    assert "truncated after 150 bytes" in report.problem
    assert f"position {size} of {FOLDER}" in report.problem
    assert report.line().startswith(FOLDER)
    assert files.size_of(again.segments[0].log.path) == size


@pytest.mark.parametrize("damage", ["checksum", "magic", "gone", "zeros"])
def test_corruption_below_the_recovery_point_changes_nothing(damage: str) -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 3)
    log.flush()
    path = log.segments[0].log.path
    second = log.segments[0].position_of(1)
    point = log.recovery_point
    if damage == "checksum":
        files.corrupt(path, second + 70, b"\xff")
    elif damage == "magic":
        files.corrupt(path, second + 16, b"\x01")
    elif damage == "zeros":
        files.corrupt(path, second, bytes(100))
    else:
        files.truncate(log.segments[0].log.use(), second)
    files.kill()
    before = files.bytes_of(path)
    with pytest.raises(CorruptLogError, match="had been flushed") as caught:
        open_log_on(new_disk(files), recovery_point=point)
    assert path in str(caught.value)
    if damage != "gone":
        assert f"position {second}" in str(caught.value)
    assert files.bytes_of(path) == before
    assert files.list(FOLDER) == [f"{0:020d}.log", "leader-epoch-checkpoint"]


def test_segments_below_the_recovery_point_are_not_scanned() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 40)
    log.flush()
    files.kill()
    sizes = [segment.size for segment in log.segments]
    again, report = open_log_on(new_disk(files), recovery_point=log.recovery_point)
    assert report.scanned_bytes == sizes[-1]
    assert not report.is_noteworthy
    assert read_all(again) == written


@pytest.mark.parametrize("damage", ["missing", "odd", "wrong", "zeros", "times"])
def test_invalid_indexes_are_rebuilt(damage: str) -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 40)
    log.close()
    index, times = log.segments[1].path(".index"), log.segments[1].path(".timeindex")
    good = files.bytes_of(index), files.bytes_of(times)
    if damage == "missing":
        files.unlink(index)
    elif damage == "odd":
        files.corrupt(index, len(good[0]), b"abc")
    elif damage == "wrong":
        files.corrupt(index, len(good[0]) - 4, b"\x00\x00\x00\x09")
    elif damage == "zeros":
        files.corrupt(index, len(good[0]), bytes(80))
    else:
        files.corrupt(times, 0, b"\xff" * len(good[1]))
    files.write_back()
    again, report = open_log_on(new_disk(files), clean=True)
    assert report.rebuilt == (f"{again.segments[1].base_offset:020d}.log",)
    assert (files.bytes_of(index), files.bytes_of(times)) == good
    assert read_all(again, 150) == written


def test_an_incomplete_index_is_rebuilt() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files), SMALL.replace(segment_bytes=1 << 22))
    for _ in range(40):
        put(log, batch(log.end_offset, 1, size=50_000))
    log.close()
    files.truncate(files.open(log.segments[0].path(".index")), 8)
    _, report = open_log_on(new_disk(files), clean=True)
    assert report.rebuilt


@pytest.mark.parametrize("damage", ["a hole", "a length", "the epoch"])
def test_valid_batches_after_corruption_are_reported(damage: str) -> None:
    """They were not durable, so they are truncated as in Kafka, but also reported."""
    files = memory_files()
    disk = new_disk(files)
    log, _ = open_log_on(disk)
    fill(log, 3)
    place, end = log.segments[-1].size, log.end_offset
    written = fill(log, 12, epoch=3)
    log.release()
    changed = {"a hole": (0, bytes(61)), "a length": (8, bytes(4)), "the epoch": (15, b"\0\0")}
    position, data = changed[damage]
    files.corrupt(log.segments[0].log.path, place + position, data)
    lost = log.end_offset - 1
    again, report = open_log_on(disk)
    assert again.end_offset == end
    first = end + 1
    assert f"{len(written) - 1} valid batches after it, offsets {first} to {lost}" in report.line()
    assert again.folder in report.line()
    assert f"bytes truncated: {report.problem}" in report.line()


def test_records_that_look_like_batches_are_not_reported() -> None:
    files = memory_files()
    disk = new_disk(files)
    log, _ = open_log_on(disk, LogConfig())
    fill(log, 1)
    place = log.segments[-1].size
    inner = batch(50, size=30)
    put(log, build_batch([Record(log.end_offset, T0, None, inner[:-1] + b"X")]))
    log.release()
    files.corrupt(log.segments[0].log.path, place, bytes(61))
    _, report = open_log_on(disk, LogConfig())
    assert report.problem
    assert "valid" not in report.line()


def test_the_search_for_valid_batches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a large batch full of headers would take quadratic time."""
    monkeypatch.setattr("kraftlog.storage.salvage._BUDGET_BYTES", 1000)
    files = memory_files()
    disk = new_disk(files)
    log, _ = open_log_on(disk, LogConfig())
    fill(log, 1)
    place = log.segments[-1].size
    fake_header = HEADER.pack(60, 400, 0, 2, 0, 0, 0, T0, T0, -1, -1, -1, 1)
    put(log, build_batch([Record(log.end_offset, T0, None, fake_header * 100)]))
    fill(log, 3)
    log.release()
    files.corrupt(log.segments[0].log.path, place, bytes(61))
    files.journal = []
    _, report = open_log_on(disk, LogConfig())
    assert "valid" not in report.line()
    assert len(files.journal) < 30


def test_a_batch_out_of_its_segments_range_is_refused() -> None:
    """An index cannot represent its offset; the batch is valid, so nothing is truncated."""
    files = memory_files()
    disk = new_disk(files)
    log, _ = open_log_on(disk, LogConfig())
    put(log, batch(0))
    size = log.segments[0].size
    log.release()
    files.write_back()
    path, far = log.segments[0].log.path, batch(0x80000000)
    fd = files.open(path)
    files.pwritev(fd, [far], size)
    with pytest.raises(CorruptLogError, match="valid, so nothing was changed"):
        open_log_on(disk, LogConfig())
    assert files.size(fd) == size + len(far)


def test_a_batch_of_an_older_epoch_is_truncated() -> None:
    """A truncation of this batch did not reach the disk, but a later append did."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    put(log, batch(0, epoch=1), batch(1, epoch=1), batch(2, epoch=1))
    size = log.segments[0].size // 3
    files.corrupt(log.segments[0].log.path, size, batch(1, epoch=2))
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert read_all(again) == [batch(0, epoch=1), batch(1, epoch=2)]
    assert "after one of epoch 2" in report.problem


def test_a_batch_with_decreasing_offsets_is_truncated() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    put(log, batch(0, 2), batch(2))
    files.corrupt(log.segments[0].log.path, len(batch(0, 2)), batch(1))
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert read_all(again) == [batch(0, 2)]
    assert "a batch at offset 1 where offset 2 is expected" in report.problem


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_an_invalid_control_batch_is_truncated(key: bytes | None) -> None:
    """Its CRC is valid, so the batch was written with this content."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    put(log, batch(0))
    builder = BatchBuilder(base_offset=1, leader_epoch=0, producer_id=1, is_control=True)
    builder.append(T0, key, b"", ())
    files.corrupt(log.segments[0].log.path, log.segments[0].size, builder.build())
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert read_all(again) == [batch(0)]
    assert "the control batch at offset 1" in report.problem


def test_a_log_that_lost_all_records_continues_at_its_start() -> None:
    """The records below the log start offset were deleted, and the crash lost the others."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 3)
    files.kill()
    again, report = run(open_log(new_disk(files), FOLDER, SMALL, start_offset=50))
    assert (again.start_offset, again.end_offset, again.size_bytes) == (50, 50, 0)
    assert "after the log start offset 50" in report.line()
    fill(again, 2)


def test_the_rest_of_a_failed_write_is_not_part_of_the_log() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 12)
    log.flush()
    sealed = log.segments[0]
    files.make_file(sealed.log.path, files.bytes_of(sealed.log.path) + b"rest")
    files.kill()
    again, _ = open_log_on(new_disk(files), recovery_point=log.recovery_point)
    assert read_all(again) == written
    files.make_file(sealed.log.path, files.bytes_of(sealed.log.path)[:-80])
    files.kill()
    with pytest.raises(CorruptLogError, match="no whole record batch"):
        open_log_on(new_disk(files), recovery_point=log.recovery_point)


def test_a_gap_between_segments_ends_the_log() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 40)
    files.truncate(log.segments[1].log.use(), 0)
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert again.end_offset == log.segments[1].base_offset
    assert read_all(again) == written[: len(read_all(again))]
    assert "is expected" in report.problem
    assert [name for name in files.list(FOLDER) if name.endswith(".deleted")]


def test_a_compacted_log_may_have_gaps() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files), SMALL.replace(contiguous=False))
    fill(log, 40)
    end = log.end_offset
    files.truncate(log.segments[1].log.use(), 0)
    files.kill()
    again, _ = open_log_on(new_disk(files), SMALL.replace(contiguous=False))
    assert again.end_offset == end
    assert read_all(again)


@pytest.mark.parametrize("partial", [0, 50])
def test_a_full_disk_leaves_the_log_unchanged(partial: int) -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 3)
    size = log.segments[0].size
    files.capacity_bytes = files.used_bytes() + partial
    with pytest.raises(DiskFullError, match="No space left"):
        put(log, batch(log.end_offset))
    assert files.size_of(log.segments[0].log.path) == size
    files.capacity_bytes = None
    put(log, batch(log.end_offset))
    assert read_all(log)[:-1] == written


def test_a_full_disk_at_a_segment_roll_leaves_the_log_unchanged() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 5)
    while log.segments[-1].size < 500:
        written += fill(log, 1)
    files.capacity_bytes = files.used_bytes()
    for _ in range(3):
        with pytest.raises(DiskFullError):
            put(log, batch(log.end_offset, size=100))
    files.capacity_bytes = None
    written += fill(log, 10)
    assert read_all(log) == written
    log.close()
    again, report = open_log_on(new_disk(files), clean=True)
    assert (read_all(again), report.is_noteworthy) == (written, False)


def test_an_append_of_many_segments_is_all_or_nothing() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 3)
    files.capacity_bytes = files.used_bytes() + 2000
    with pytest.raises(DiskFullError):
        put(log, *[batch(log.end_offset + i, producer_id=1, sequence=i) for i in range(50)])
    assert (read_all(log), log.producers.entries) == (written, {})
    files.capacity_bytes = None
    fill(log, 3)


def test_recovery_yields_after_each_chunk() -> None:
    """The event loop can serve requests between two chunks."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files), SMALL.replace(segment_bytes=1 << 22))
    for _ in range(40):
        put(log, batch(log.end_offset, size=50_000))
    files.kill()
    steps = list(open_log(new_disk(files), FOLDER, SMALL))
    assert sum(steps) == log.size_bytes
    assert len(steps) >= 8
    assert max(steps) <= 256 << 10


def test_a_batch_larger_than_a_chunk_is_checked() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files), SMALL.replace(segment_bytes=1 << 22))
    put(log, batch(0), batch(1, size=1_000_000), batch(2))
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert (again.end_offset, report.problem) == (3, "")
    files.corrupt(again.segments[0].log.path, 900_000, b"\x00")
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert again.end_offset == 1
    assert "checksum" in report.problem


def test_a_short_write_is_completed() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    files.faults = [Fault("pwritev", code=0, partial=n, times=1) for n in (1, 95, 170)]
    put(log, *[batch(offset) for offset in range(4)])
    assert len(read_all(log)) == 4


def test_v18_an_io_error_takes_the_disk_offline() -> None:
    files = memory_files()
    disk = new_disk(files)
    log, _ = open_log_on(disk)
    failures: list[StorageError] = []
    disk.on_failure = failures.append
    written = fill(log, 3)
    files.faults = [Fault("pwritev", partial=40)]
    with pytest.raises(StorageError, match="Input/output error"):
        put(log, batch(log.end_offset))
    for _ in range(2):
        with pytest.raises(StorageError, match="offline"):
            put(log, batch(log.end_offset))
    assert len(failures) == 1
    assert read_all(log) == written
    files.kill()
    again, report = open_log_on(new_disk(files))
    assert (read_all(again), report.truncated_bytes) == (written, 40)


def test_a_failed_sync_is_never_a_success() -> None:
    """Linux marks pages that it can't write as clean, so a second sync would succeed."""
    modelled_log = ModelledLog()
    modelled_log.append([1, 2])
    modelled_log.flush()
    modelled_log.append([3, 3])
    modelled_log.files.faults = [Fault("sync", path=".log")]
    modelled_log.fail_to_flush()
    with pytest.raises(StorageError, match="offline"):
        modelled_log.append([1])
    modelled_log.crash(None, power=False)
    assert len(modelled_log.batches) == 2  # the page cache still shows four; the disk has two
    modelled_log.append([4])
    modelled_log.flush()
    modelled_log.crash(None, power=True)
    assert len(modelled_log.batches) == 3


def test_the_model_detects_lost_and_invented_records() -> None:
    """Otherwise the tests above could pass because `ModelledLog` checks nothing."""
    modelled_log = ModelledLog()
    modelled_log.append([1, 2])
    modelled_log.flush()
    modelled_log.files.truncate(modelled_log.files.open(modelled_log.log.segments[0].log.path), 0)
    modelled_log.stored_point = 0
    with pytest.raises(AssertionError, match="durable records are lost"):
        modelled_log.crash(None, power=False)
    modelled_log = ModelledLog()
    modelled_log.append([1])
    modelled_log.files.kill()
    path = modelled_log.log.segments[0].log.path
    modelled_log.files.make_file(path, modelled_log.files.bytes_of(path) + batch(1, 1, size=99))
    with pytest.raises(AssertionError, match="never had these records"):
        modelled_log.crash(None, power=False)


def test_a_flush_covers_only_records_from_before_it_began() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 5)
    job = log.flush_job()
    assert job is not None
    assert log.flush_job() is None
    fill(log, 5)
    job.run(files)
    assert log.flushed(job) == job.end_offset < log.end_offset
    job = log.flush_job()
    assert job is not None
    log.truncate_to(3)
    fill(log, 30, epoch=1)
    job.run(files)
    assert log.flushed(job) <= 3
    log.flush()
    assert log.recovery_point == log.end_offset
    assert log.flush_job() is None


def test_the_simulated_disk_has_the_errors_of_linux() -> None:
    files = MemoryFiles()
    with pytest.raises(FileNotFoundError):
        files.open("/a")
    fd = files.open("/a", create=True)
    with pytest.raises(OSError, match="Invalid argument"):
        files.pwritev(fd, [b"x"] * 1025, 0)
    files.lock("/lock")
    with pytest.raises(BlockingIOError):
        files.lock("/lock")
