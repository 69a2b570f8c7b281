"""A log on a simulated disk: appends, rolls, reads, truncation, retention and lookups by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.storage.config import LogConfig
from kraftlog_simulator.files import Fault, MemoryFiles
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

if TYPE_CHECKING:
    from kraftlog.storage.log import Log


def test_an_empty_log_has_no_files() -> None:
    files = memory_files()
    log, report = open_log_on(new_disk(files))
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert files.list(FOLDER) == []
    assert not report.is_noteworthy
    assert log.locate(0, 100, 100) is None


def test_appended_records_can_be_read() -> None:
    log, _ = open_log_on(new_disk())
    written = fill(log, 40)
    assert len(log.segments) > 3
    for max_bytes in (1, 100, 250, 1 << 20):
        assert read_all(log, max_bytes) == written


@pytest.mark.parametrize("limit", range(0, 60, 7))
def test_nothing_at_or_above_the_limit_is_located(limit: int) -> None:
    log, _ = open_log_on(new_disk(), LogConfig(index_interval_bytes=200))
    fill(log, 30)
    place = log.locate(0, 1 << 20, limit)
    if limit == 0:
        assert place is None
        return
    assert place is not None
    from kraftlog.records.walk import walk

    last = max(base + delta for _, (base, _, _, _, _, _, delta, *_) in walk(log.read(place)))
    assert last < limit
    assert last >= limit - 3


@pytest.mark.parametrize("max_bytes", [0, 1, 60])
def test_one_whole_batch_is_located_with_any_max_bytes(max_bytes: int) -> None:
    """C82: otherwise a reader with a smaller limit would never progress."""
    log, _ = open_log_on(new_disk(memory_files()))
    written = fill(log, 3)
    place = log.locate(0, max_bytes, log.end_offset)
    assert place is not None
    assert log.read(place) == written[0]
    log.release()


def test_many_batches_are_appended_by_one_write() -> None:
    """One `pwritev` takes at most 1024 buffers (IOV_MAX), so 2100 batches take three."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files), LogConfig())
    put(log, batch(0))
    files.journal = []
    put(log, *[batch(offset) for offset in range(1, 900)])
    assert [line for line in files.journal if line.startswith("pwritev")] == [
        f"pwritev {FOLDER}/{0:020d}.log"
    ]
    put(log, *[batch(offset) for offset in range(900, 3000)])
    assert len([line for line in files.journal if line.startswith("pwritev")]) == 4
    assert len(read_all(log, 5000)) == 3000


def test_an_append_larger_than_a_segment_is_split() -> None:
    log, _ = open_log_on(new_disk(), SMALL)
    put(log, *[batch(offset) for offset in range(50)])
    assert len(log.segments) > 5
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    assert len(read_all(log)) == 50


def test_a_cleanly_closed_log_opens_again() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 40, epoch=3)
    log.close()
    assert files.open_handles() == 0
    again, report = open_log_on(new_disk(files), clean=True)
    assert not report.is_noteworthy
    assert report.scanned_bytes == 0
    assert (again.end_offset, again.recovery_point) == (log.end_offset, log.end_offset)
    assert again.epochs.entries() == [(3, 0)]
    assert read_all(again, 300) == written
    written += fill(again, 10, epoch=4)
    assert read_all(again, 300) == written


def test_a_segment_rolls_by_time() -> None:
    log, _ = open_log_on(new_disk(), LogConfig(segment_ms=100))
    put(log, batch(0, timestamp_ms=T0))
    put(log, batch(1, timestamp_ms=T0 + 100))
    assert len(log.segments) == 1
    put(log, batch(2, timestamp_ms=T0 + 101))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_rolls_where_relative_offsets_end() -> None:
    log, _ = open_log_on(new_disk(), LogConfig())
    put(log, batch(0))
    put(log, batch(0x7FFFFFFF))
    assert len(log.segments) == 1
    put(log, batch(0x80000000))
    assert [segment.base_offset for segment in log.segments] == [0, 0x80000000]
    put(log, batch(0x1_8000_0000))
    assert log.segments[-1].base_offset == 0x1_8000_0000
    assert len(read_all(log)) == 4


def test_an_append_with_too_many_offsets_is_split() -> None:
    """An append can have any number of offsets; relative offsets in indexes have 31 bits."""
    disk = new_disk()
    log, _ = open_log_on(disk, LogConfig())
    put(log, batch(0))
    put(log, batch(5), batch(0x7FFFFFFF), batch(0x80000000), batch(0x1_8000_0000))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 0x1_8000_0000]
    log.roll(T0)
    log.flush()
    log.release()
    again, report = open_log_on(disk, LogConfig())
    assert (len(read_all(again)), report.problem) == (5, "")


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log, _ = open_log_on(new_disk(), LogConfig(segment_index_bytes=240, index_interval_bytes=100))
    fill(log, 100)
    assert len(log.segments) > 3
    assert all(segment.offsets.count * 8 <= 240 for segment in log.segments)


@pytest.mark.parametrize("cut", range(0, 80, 3))
def test_truncation_keeps_earlier_records(cut: int) -> None:
    log, _ = open_log_on(new_disk())
    written = fill(log, 40)
    end = log.end_offset
    new_end = log.truncate_to(cut)
    assert new_end == log.end_offset <= min(cut, end)
    kept = read_all(log)
    assert kept == written[: len(kept)]
    if cut < end:
        assert cut - new_end < 3
    more = fill(log, 10, epoch=1)
    assert read_all(log, 200) == kept + more
    assert log.epochs.end_offset_for(0, log.end_offset)[1] == new_end


def test_truncate_fully_removes_everything() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 20)
    log.truncate_fully_and_start_at(1000)
    assert (log.start_offset, log.end_offset, log.epochs.entries()) == (1000, 1000, [])
    written = fill(log, 3)
    log.close()
    again, _ = open_log_on(new_disk(files), clean=True)
    assert (again.start_offset, read_all(again)) == (1000, written)


def test_raising_the_log_start_deletes_whole_segments() -> None:
    log, _ = open_log_on(new_disk())
    fill(log, 40)
    third = log.segments[2].base_offset
    assert log.move_start(third + 1) == 2
    assert log.segments[0].base_offset == third
    assert log.start_offset == third + 1
    assert log.epochs.entries() == [(0, third + 1)]
    assert len(log.garbage) == 2
    log.move_start(log.end_offset)
    assert (log.start_offset, log.size_bytes) == (log.end_offset, 0)
    fill(log, 2)


def test_a_new_start_truncates_the_epochs_even_if_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """V6: the last segment is deleted by starting a new one, which may fail."""
    log, _ = open_log_on(new_disk())
    fill(log, 3)

    def no_space(*_: object, **__: object) -> None:
        raise DiskFullError("no space")

    monkeypatch.setattr(type(log), "roll", no_space)
    with pytest.raises(DiskFullError):
        log.move_start(log.end_offset)
    assert log.epochs.entries() == [(0, log.start_offset)]


def test_retention_deletes_segments_by_size_and_time() -> None:
    log, _ = open_log_on(new_disk(), SMALL.replace(retention_bytes=1300))
    fill(log, 40)
    sizes = [segment.size for segment in log.segments]
    dropped = log.delete_old_segments(T0, log.end_offset)
    assert dropped > 0
    assert sum(sizes[dropped:]) >= 1300 > sum(sizes[dropped + 1 :])
    log.config = SMALL.replace(retention_ms=50)
    second = log.segments[1]
    assert log.delete_old_segments(second.max_timestamp + 50, log.end_offset) == 1
    assert log.delete_old_segments(second.max_timestamp + 51, second.end_offset - 1) == 0
    assert log.delete_old_segments(second.max_timestamp + 51, log.end_offset) == 1
    assert log.delete_old_segments(T0 * 2, log.end_offset) > 0
    assert (log.size_bytes, log.start_offset) == (0, log.end_offset)


def test_deleting_all_segments_writes_no_indexes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Index files take milliseconds to create and delete; thousands of logs may roll at once."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    put(log, batch(0, 3))
    opened: list[str] = []

    def open_and_note(path: str, *, write: bool = True, create: bool = False) -> int:
        opened.append(path.rpartition(".")[2])
        return MemoryFiles.open(files, path, write=write, create=create)

    monkeypatch.setattr(files, "open", open_and_note)
    assert log.move_start(3) == 1
    assert sorted(opened) == ["log", "snapshot"]
    assert (log.start_offset, log.end_offset, log.size_bytes) == (3, 3, 0)


def found_by_time(log: Log, timestamp: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after the timestamp."""
    start = log.start_offset
    while (data := log.batch_for_timestamp(timestamp, start)) is not None:
        for record in read_records(data):
            if record.timestamp_ms >= timestamp and record.offset >= start:
                return record.offset, record.timestamp_ms
        start = read_header(data).next_offset
    return None


def test_offsets_are_found_by_timestamp() -> None:
    log, _ = open_log_on(new_disk())
    fill(log, 40)
    times: dict[int, int] = {}
    for data in read_all(log):
        for record in read_records(data):
            times[record.offset] = record.timestamp_ms
    for wanted in range(T0 - 5, max(times.values()) + 5, 3):
        expected = next(((o, t) for o, t in sorted(times.items()) if t >= wanted), None)
        assert found_by_time(log, wanted) == expected
    assert found_by_time(log, max(times.values()) + 1) is None


def test_the_largest_timestamp_is_found() -> None:
    log, _ = open_log_on(new_disk())
    assert log.max_timestamp == -1
    fill(log, 20)
    middle = log.end_offset
    put(log, batch(middle, 3, timestamp_ms=T0 + 10_000))
    put(log, batch(middle + 3, timestamp_ms=T0 + 10_002))
    fill(log, 20)
    assert log.max_timestamp == T0 + 10_002
    assert found_by_time(log, T0 + 10_002) == (middle + 2, T0 + 10_002)


def test_a_wrong_index_is_rebuilt_on_use() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    written = fill(log, 40)
    sealed = log.segments[1]
    files.corrupt(sealed.path(".index"), 0, (1).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    assert read_all(log, 150) == written


def test_rebuilt_indexes_that_cannot_be_written_take_the_disk_offline() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 40)
    index = log.segments[1].path(".index")
    files.corrupt(index, 0, (1).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    files.faults = [Fault("truncate", path=index)]
    with pytest.raises(StorageError, match="writing rebuilt indexes"):
        read_all(log, 150)
    with pytest.raises(StorageError, match="writing rebuilt indexes"):
        log.disk.check()


def test_a_failed_lookup_by_timestamp_leaves_the_disk_online() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    fill(log, 40)
    files.faults = [Fault("pread", path=".log")]
    with pytest.raises(StorageError, match="finding a timestamp"):
        log.batch_for_timestamp(T0 + 50, 0)
    log.disk.check()


def test_few_handles_serve_many_segments() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files, limit=3))
    written = fill(log, 60)
    assert read_all(log, 100) == written
    assert files.open_handles() <= 3


def test_a_pinned_slice_outlives_its_segment() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files, limit=2))
    written = fill(log, 40)
    place = log.locate(0, 1, log.end_offset)
    assert place is not None
    fd = place.handle.pin()
    log.move_start(log.end_offset)
    for path in log.garbage:
        files.unlink(path)
    fill(log, 20)
    assert files.pread(fd, place.length, place.position) == written[0]
    place.handle.unpin()
    log.release()
    assert files.open_handles() == 0
