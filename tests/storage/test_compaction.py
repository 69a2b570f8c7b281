"""Compaction keeps the latest values, survives crashes, and never changes an offset."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.errors import CorruptBatchError, StorageError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraftlog.records.header import read_header
from kraftlog.records.split import split_records
from kraftlog.storage.cleaning import clean
from kraftlog.storage.compaction import describe_task, log_to_clean
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.recovery import run
from kraftlog_simulator.files import MemoryFiles, PowerLost
from tests.storage.compacting import COMPACTED, HORIZON_MS, compact, latest, records_of
from tests.storage.making import (
    FOLDER,
    T0,
    marker,
    memory_files,
    new_disk,
    open_log_on,
    put,
    read_all,
)

if TYPE_CHECKING:
    from kraftlog.storage.log import Log

Pair = tuple[int, int | None]
PAIRS = st.tuples(st.integers(0, 5), st.none() | st.integers(0, 99))
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD]),
        st.booleans(),
        st.lists(PAIRS, min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=40,
)


def append_keyed(
    log: Log,
    *pairs: Pair,
    codec: int = NONE,
    append_time: bool = False,
    producer: tuple[int, int] | None = None,
    transactional: bool = False,
) -> bytes:
    """Append a batch of keys and values; `producer` is a producer id and a sequence."""
    producer_id, sequence = producer or (-1, -1)
    builder = BatchBuilder(
        base_offset=log.end_offset,
        leader_epoch=0,
        codec=codec,
        append_time_ms=T0 + log.end_offset if append_time else None,
        producer_id=producer_id,
        producer_epoch=0 if producer else -1,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    for number, (key, value) in enumerate(pairs):
        content = None if value is None else b"%d" % value * 20
        name = b"key-%d" % key * (1 + 3 * (key % 2))  # short keys, and keys that are hashed
        builder.append(T0 + log.end_offset + number, name, content, [("h", b"x")])
    data = builder.build()
    put(log, data)
    return data


def new_log(files: MemoryFiles | None = None) -> Log:
    return open_log_on(new_disk(files or memory_files()), COMPACTED)[0]


def end_segment(log: Log) -> None:
    """Make all records compactable: durable, and not in the active segment."""
    log.roll(T0)
    log.flush()


def names(files: MemoryFiles) -> list[str]:
    return [name for name in files.list(FOLDER) if not name.endswith(".deleted")]


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.lists(st.integers(0, 2 * HORIZON_MS), max_size=3), st.integers(1, 9))
def test_compaction_keeps_the_latest_value_of_each_key(
    batches: list[tuple[int, bool, list[Pair]]], waits_ms: list[int], max_keys: int
) -> None:
    """For any batches, waits between passes and key limits; kept records keep their offsets."""
    log, now_ms = new_log(), T0
    waits_ms = [0, *waits_ms]
    for number, (codec, append_time, pairs) in enumerate(batches):
        append_keyed(log, *pairs, codec=codec, append_time=append_time)
        if number % 10 == 9 and waits_ms:
            now_ms += waits_ms.pop()
            log.flush()
            compact(log, now_ms, max_keys)
    before, active = records_of(log), log.segments[-1].base_offset
    log.flush()
    tail = [record for record in before if record[0] >= active]
    while compact(log, now_ms, max_keys):
        assert log.clean_offset <= active
    after = records_of(log)
    offsets = [record[0] for record in after]
    assert offsets == sorted(set(offsets))
    assert set(after) <= set(before)
    assert latest(after) == latest(before)
    assert [record for record in after if record[0] >= active] == tail, (
        "the active segment is unchanged"
    )
    settled = [key for offset, key, _ in after if offset < active]
    assert len(settled) == len(set(settled)), "each key occurs once"
    kept_end = log.end_offset
    log.close()
    again, report = open_log_on(new_disk(log.disk.files), COMPACTED, clean=True)
    assert not report.is_noteworthy
    assert records_of(again) == after
    assert again.end_offset == kept_end


def test_tombstones_are_removed_only_after_their_horizon() -> None:
    log = new_log()
    append_keyed(log, (1, 1), (2, 2))
    append_keyed(log, (1, None))
    end_segment(log)
    assert compact(log)
    assert [key for _, key, value in records_of(log) if value is None] == [b"key-1" * 4]
    horizons = [read_header(batch).delete_horizon_ms for batch in read_all(log)]
    assert horizons == [None, T0 + HORIZON_MS]
    for now_ms, tombstones in ((T0 + HORIZON_MS - 1, 1), (T0 + HORIZON_MS, 0)):
        append_keyed(log, (3, now_ms % 7))
        end_segment(log)
        assert compact(log, now_ms)
        assert sum(value is None for _, _, value in records_of(log)) == tombstones


def test_the_last_batch_of_a_producer_is_kept_even_if_empty() -> None:
    log = new_log()
    append_keyed(log, (1, 1), producer=(7, 0))
    append_keyed(log, (1, 2), (1, 3), producer=(7, 1))
    append_keyed(log, (1, 4))
    end_segment(log)
    producers = log.producers.copy()
    assert compact(log)
    headers = [read_header(batch) for batch in read_all(log)]
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers] == [
        (1, 2, 0),
        (3, 3, 1),
    ]
    assert headers[0].last_sequence == 2
    for snapshot in list(log.tracker.snapshots):
        log.disk.files.unlink(log.tracker.path(snapshot))
    log.release()
    again = open_log_on(new_disk(log.disk.files), COMPACTED)[0]
    assert again.producers.entries[7].last_sequence == producers.entries[7].last_sequence


def test_aborted_records_are_removed_and_markers_after_the_horizon() -> None:
    log = new_log()
    append_keyed(log, (1, 1))
    append_keyed(log, (1, 9), producer=(7, 0), transactional=True)
    put(log, marker(log.end_offset, 7, commit=False))
    append_keyed(log, (2, 2), producer=(8, 0), transactional=True)
    put(log, marker(log.end_offset, 8, commit=True))
    for sequence, producer in ((1, 7), (1, 8)):  # as the last batch of each producer is kept
        append_keyed(log, (3, sequence), producer=(producer, sequence))
    end_segment(log)
    assert compact(log)
    assert latest(records_of(log))[b"key-1" * 4] == (0, b"1" * 20), "the aborted value is ignored"
    bases = [read_header(batch).base_offset for batch in read_all(log)]
    assert bases == [0, 2, 3, 4, 5, 6]
    append_keyed(log, (2, 5))
    end_segment(log)
    assert compact(log, T0), "the marker gets its horizon"
    assert log.aborted_transactions(0, log.end_offset) == []
    append_keyed(log, (4, 5))
    end_segment(log)
    assert compact(log, T0 + HORIZON_MS)
    bases = [read_header(batch).base_offset for batch in read_all(log)]
    assert 2 not in bases, "its transaction has no records left"
    assert 4 in bases, "its transaction's last record was removed in the previous pass"


def test_an_empty_aborted_batch_is_still_marked_as_aborted() -> None:
    log = new_log()
    append_keyed(log, (1, 9), producer=(7, 0), transactional=True)
    put(log, marker(log.end_offset, 7, commit=False))
    end_segment(log)
    assert compact(log)
    headers = [read_header(batch) for batch in read_all(log)]
    assert [(h.base_offset, h.record_count) for h in headers] == [(0, 0), (1, 1)]
    assert [entry.first_offset for entry in log.aborted_transactions(0, 2)] == [0]


def test_undecided_young_or_unflushed_records_are_not_compacted() -> None:
    log = new_log()
    append_keyed(log, (1, 1))
    append_keyed(log, (1, 2), producer=(7, 0), transactional=True)
    log.roll(T0)
    assert not compact(log), "no record is durable"
    log.flush()
    assert not compact(log), "a transaction is open"
    put(log, marker(log.end_offset, 7, commit=True))
    assert log_to_clean(log, 1, T0) is None, "the records are not replicated"
    log.config = COMPACTED.replace(min_compaction_lag_ms=100)
    assert not compact(log, T0 + 100)
    log.config = COMPACTED.replace(min_cleanable_dirty_ratio=1.0)
    assert not compact(log, T0 + 101), "the dirty ratio is too low"
    log.config = log.config.replace(max_compaction_lag_ms=100)
    log.segments[0].first_timestamp = -1
    assert compact(log, T0 + 101)
    assert not compact(log, T0 + 999), "the whole log is clean"


def test_a_slice_is_readable_after_compaction() -> None:
    log = new_log()
    for number in range(20):
        append_keyed(log, (1, number))
    end_segment(log)
    place = log.locate(3, 1 << 20, log.end_offset)
    assert place is not None
    fd = place.handle.pin()
    data = log.disk.files.pread(fd, place.length, place.position)
    assert compact(log)
    assert log.disk.files.pread(fd, place.length, place.position) == data
    place.handle.unpin()
    next_place = log.locate(3, 1 << 20, log.end_offset)
    assert next_place is not None
    assert read_header(log.read(next_place)).base_offset == 19, "the next remaining batch"


def test_retention_skips_empty_segments() -> None:
    log = new_log()
    for number in range(20):
        append_keyed(log, (1, number))
    end_segment(log)
    assert compact(log)
    assert log.segments[0].size == 0
    log.config = COMPACTED.replace(retention_bytes=0)
    log.delete_old_segments(T0, log.end_offset)
    assert log.size_bytes == 0


def log_to_compact() -> tuple[MemoryFiles, Log]:
    files = memory_files()
    log = new_log(files)
    for number in range(12):
        append_keyed(log, (number % 3, number), (5, number))
    append_keyed(log, (9, 9), producer=(7, 0), transactional=True)
    put(log, marker(log.end_offset, 7, commit=False))
    for number in range(12):
        append_keyed(log, (number % 3, None if number % 5 else number), producer=(8, number))
    end_segment(log)
    append_keyed(log, (2, 2))
    log.flush()
    return files, log


def operations_of_a_pass() -> int:
    files, log = log_to_compact()
    records_of(log)  # opens files
    before = files.operations
    assert compact(log)
    return files.operations - before


@pytest.mark.parametrize("by_power", [False, True])
def test_a_crash_at_any_operation_loses_nothing(by_power: bool) -> None:
    """The machine stops before each operation of a pass, and again during the recovery."""
    count = operations_of_a_pass()
    assert count > 40
    for stop in range(count):
        files, log = log_to_compact()
        before, recovery_point = records_of(log), log.recovery_point
        producers = log.producers.copy()
        files.stop_before = files.operations + stop
        with pytest.raises(PowerLost):
            compact(log)
        for second_stop in (stop % 7, None):
            files.power_loss(Random(stop)) if by_power else files.kill()
            files.stop_before = None
            if second_stop is not None:
                files.stop_before = files.operations + second_stop
            try:
                log = open_log_on(new_disk(files), COMPACTED, recovery_point=recovery_point)[0]
            except PowerLost:
                continue
        assert latest(records_of(log)) == latest(before), stop
        assert set(records_of(log)) <= set(before)
        assert log.producers.entries[8].last_sequence == producers.entries[8].last_sequence
        assert not [n for n in names(files) if n.endswith((".swap", ".cleaned"))]
        log.flush()
        compact(log, T0 + HORIZON_MS)
        assert latest(records_of(log)) == latest(before), stop


def test_a_failed_cleaner_leaves_no_files() -> None:
    files, log = log_to_compact()
    target = log_to_clean(log, log.end_offset, T0)
    assert target is not None
    task = describe_task(log, target, T0, 100)
    before = names(files)
    files.corrupt(log.segments[1].log.path, 70, b"\xff")
    with pytest.raises(CorruptBatchError):
        clean(files, task)
    assert names(files) == before
    task["groups"][0][0][1] += 100
    with pytest.raises(StorageError):
        clean(files, task)


def test_the_cleaner_offset_is_stored_and_lowered_by_truncation() -> None:
    files = MemoryFiles()
    files.make_folder("/data")
    directory = LogDirectory(files, "/data")
    log = directory.create(("t", 0), bytes(16), COMPACTED)
    for number in range(20):
        append_keyed(log, (1, number))
    end_segment(log)
    assert compact(log)
    directory.close()
    assert files.bytes_of("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 20\n"
    directory = LogDirectory(files, "/data")
    log = run(directory.open_log(("t", 0), COMPACTED.replace(contiguous=True)))[0]
    assert log.clean_offset == 20
    assert not compact(log)
    log.truncate_to(19)
    assert log.clean_offset == 19
    assert files.bytes_of("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 19\n"
    directory.delete(("t", 0))
    directory.close()


@pytest.mark.parametrize("seed", range(50))
def test_splitting_corrupt_records_raises_only_corrupt_batch_error(seed: int) -> None:
    """A changed byte of a key or value may also go unnoticed."""
    data = append_keyed(new_log(), (1, 1), (2, None), (3, 3))
    payload = bytearray(data[61:])
    random = Random(seed)
    payload[random.randrange(len(payload))] = random.randrange(256)
    try:
        parts = list(split_records(bytes(payload), 3))
    except CorruptBatchError:
        return
    assert len(parts) == 3
