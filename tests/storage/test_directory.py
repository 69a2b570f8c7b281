"""A directory of logs: lock, checkpoints (V15), clean shutdown, deletion."""

from __future__ import annotations

import json
from random import Random
from sys import getsizeof

import pytest

from kraftlog.errors import CorruptLogError, StorageError
from kraftlog.steps import result_of
from kraftlog.storage.checkpoints import (
    PARTITION_METADATA,
    decode_offsets,
    decode_partition_metadata,
)
from kraftlog.storage.committed_offsets import COMMITTED_OFFSETS
from kraftlog.storage.directory import LogDirectory, parse_folder
from kraftlog.storage.disk import HandleCache, read_whole
from kraftlog.storage.folder_journal import JOURNAL
from kraftlog.storage.garbage import unlink_garbage
from kraftlog.storage.manifest import CLEAN_MARKER, MANIFEST
from kraftlog.storage.offset_checkpoints import FILES
from kraftlog.storage.recovery import run
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost
from tests.storage.making import SMALL, batch, fill, marker, put, read_all
from tests.storage.model import producer_values

TOPIC_ID = bytes(range(16))


def new_files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_folder("/d")
    files.write_back()
    return files


def open_directory(files: MemoryFiles) -> LogDirectory:
    return LogDirectory(files, "/d", HandleCache(files, 8))


def open_all(logs: LogDirectory) -> None:
    for name in sorted(logs.unopened):
        run(logs.open_log(name, SMALL))


def test_only_one_process_opens_a_directory() -> None:
    files = new_files()
    logs = open_directory(files)
    with pytest.raises(BlockingIOError):
        open_directory(files)
    logs.release()
    open_directory(files).release()


def test_v5_the_topic_id_is_durable_with_the_first_flush_after_a_kill() -> None:
    """Else a power loss empties partition.metadata, and the log is taken for a former topic's."""
    files = new_files()
    open_directory(files).create(("t", 0), TOPIC_ID)
    files.kill()
    logs = open_directory(files)
    open_all(logs)
    log = logs.logs["t", 0]
    fill(log, 3)
    log.flush()
    files.power_loss()
    logs = open_directory(files)
    assert logs.topic_id(("t", 0)) == TOPIC_ID
    open_all(logs)
    assert logs.logs["t", 0].end_offset == log.end_offset


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", ("t", 0)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("__cluster_metadata-0", ("__cluster_metadata", 0)),
        ("t-0.00ff-delete", None),
        ("t-0.00ff-future", None),
        ("meta.properties", None),
        ("-1", None),
        ("t-", None),
    ],
)
def test_folder_names_are_parsed_as_in_kafka(name: str, expected: tuple[str, int] | None) -> None:
    assert parse_folder(name) == expected


def test_a_new_log_is_a_folder_with_one_file() -> None:
    files = new_files()
    logs = open_directory(files)
    logs.create(("t", 3), TOPIC_ID)
    assert files.list("/d/t-3") == ["partition.metadata"]
    assert files.bytes_of("/d/t-3/partition.metadata") == (
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    assert logs.topic_id(("t", 3)) == TOPIC_ID
    assert logs.names() == [("t", 3)]


def test_a_clean_directory_opens_without_reading_logs() -> None:
    files = new_files()
    logs = open_directory(files)
    for number in range(3):
        fill(logs.create(("t", number), TOPIC_ID, SMALL), 10 * number)
    log = logs.logs["t", 1]
    put(
        log,
        batch(log.end_offset, producer_id=4),
        batch(log.end_offset + 1, producer_id=4, sequence=1),
    )
    put(log, batch(log.end_offset, 2, producer_id=6, transactional=True))
    logs.logs["t", 2].move_start(7)
    before = {name: (log.start_offset, log.end_offset) for name, log in logs.logs.items()}
    contents = {name: read_all(log) for name, log in logs.logs.items()}
    producers, ongoing = producer_values(log.producers), log.producers.ongoing
    logs.close(broker_epoch=77)
    assert files.open_handles() == 0
    marker_text = json.loads(files.bytes_of(f"/d/{CLEAN_MARKER}"))
    assert (marker_text["version"], marker_text["brokerEpoch"]) == (0, 77)

    logs = open_directory(files)
    assert (logs.was_clean, logs.broker_epoch) == (True, 77)
    assert not files.exists(f"/d/{CLEAN_MARKER}")
    assert not files.exists(f"/d/{MANIFEST}")
    files.journal = []
    open_all(logs)
    assert not [line for line in files.journal if line.startswith(("pread", "open"))]
    assert {n: (log.start_offset, log.end_offset) for n, log in logs.logs.items()} == before
    assert producer_values(logs.logs["t", 1].producers) == producers
    assert logs.logs["t", 1].producers.ongoing == ongoing
    assert {name: read_all(log) for name, log in logs.logs.items()} == contents
    fill(logs.logs["t", 1], 5, epoch=2)
    logs.close()
    assert files.list("/d")[:5] == [
        CLEAN_MARKER,
        ".lock",
        COMMITTED_OFFSETS,
        JOURNAL,
        MANIFEST,
    ]


def test_many_logs_are_closed_by_two_syncs_of_the_file_system() -> None:
    """A crash at any operation, of which some are tried, loses nothing durable."""
    operation = 0
    while True:
        files = new_files()
        logs = open_directory(files)
        for number in range(70):
            put(logs.create(("t", number), TOPIC_ID, SMALL), batch(0, 2, epoch=number % 3))
        logs.logs["t", 0].flush()
        files.journal = []
        files.stop_before = files.operations + operation
        try:
            logs.close(5)
        except PowerLost:
            files.power_loss(Random(operation))
            logs = open_directory(files)
            open_all(logs)
            assert logs.logs["t", 0].end_offset == 2
            operation += 29
        else:
            break
    assert operation > 300
    assert len([line for line in files.journal if line.startswith("sync_all")]) == 2
    files.power_loss()
    logs = open_directory(files)
    open_all(logs)
    assert logs.was_clean
    for (_, number), log in logs.logs.items():
        assert (log.end_offset, log.epochs.entries()) == (2, [(number % 3, 0)])


def test_many_logs_without_records_are_closed_by_one_sync_of_the_files() -> None:
    files = new_files()
    logs = open_directory(files)
    for number in range(70):
        logs.create(("t", number), TOPIC_ID, SMALL)
    files.journal = []
    logs.close(5)
    assert len([line for line in files.journal if line.startswith("sync_all")]) == 1
    files.power_loss()
    logs = open_directory(files)
    open_all(logs)
    assert logs.was_clean
    assert len(logs.logs) == 70
    for name in logs.logs:
        path = f"{logs.folder(name)}/{PARTITION_METADATA}"
        assert decode_partition_metadata(read_whole(files, path), path) == TOPIC_ID


def test_logs_without_folders_are_made_again_with_few_writes() -> None:
    """The process has ended before it made the folders of new logs."""
    files = new_files()
    logs = open_directory(files)
    names = [("t", number) for number in range(50)]
    for name in names:
        logs.create(name, TOPIC_ID, SMALL, with_folder=False)
    logs.close(5)
    logs = open_directory(files)
    files.journal = []
    for name in names:
        logs.create(name, TOPIC_ID, SMALL, with_folder=False)
    assert len([line for line in files.journal if line.startswith("rename")]) <= len(FILES)


def test_the_names_of_unopened_logs_use_no_memory_once_all_are_open() -> None:
    files = new_files()
    logs = open_directory(files)
    for number in range(100):
        logs.create(("t", number), TOPIC_ID, SMALL)
    logs.close()
    logs = open_directory(files)
    first, *others = sorted(logs.unopened)
    assert len({id(topic) for topic, _ in (first, *others)}) == 1, "one string for the topic"
    for name in others:
        run(logs.open_log(name, SMALL))
    assert getsizeof(logs.unopened) > getsizeof({first}), "a set does not shrink"
    run(logs.open_log(first, SMALL))
    assert getsizeof(logs.unopened) == getsizeof(set())
    logs.release()


def test_unopened_logs_stay_clean() -> None:
    files = new_files()
    logs = open_directory(files)
    fill(logs.create(("t", 0), TOPIC_ID, SMALL), 10)
    logs.close()
    open_directory(files).close()
    logs = open_directory(files)
    _, report = run(logs.open_log(("t", 0), SMALL))
    assert (report.clean, report.end_offset, report.scanned_bytes) == (True, 19, 0)


def test_a_log_that_differs_from_the_manifest_is_recovered() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    fill(log, 10)
    logs.close()
    path = log.segments[-1].log.path
    files.make_file(path, files.bytes_of(path) + b"more")
    logs = open_directory(files)
    log, report = run(logs.open_log(("t", 0), SMALL))
    assert (report.clean, report.truncated_bytes, log.end_offset) == (False, 4, 19)


def close_directory_with_old_folder(files: MemoryFiles) -> None:
    """Close a directory with a log whose folder has not been modified for some time."""
    logs = open_directory(files)
    fill(logs.create(("t", 0), TOPIC_ID, SMALL), 10)
    logs.close()
    logs = open_directory(files)
    open_all(logs)
    logs.logs["t", 0].topic_id = TOPIC_ID
    files.now_ms += 1
    logs.close()


def test_a_folder_that_is_older_than_the_manifest_is_not_read() -> None:
    files = new_files()
    close_directory_with_old_folder(files)
    logs = open_directory(files)
    files.journal = []
    assert logs.topic_id(("t", 0)) == TOPIC_ID
    log, report = run(logs.open_log(("t", 0), SMALL))
    assert (report.clean, log.end_offset) == (True, 19)
    assert [line for line in files.journal if "list" in line or "metadata" in line] == []


def test_a_log_opens_as_it_was_closed_only_if_nothing_has_changed() -> None:
    files = new_files()
    close_directory_with_old_folder(files)
    logs = open_directory(files)
    files.journal = []
    assert logs.open_from_manifest(("t", 0), bytes(16), SMALL) is None, "another topic of this name"
    log = logs.open_from_manifest(("t", 0), TOPIC_ID, SMALL)
    assert log is not None
    assert (log.end_offset, logs.unopened) == (19, set())
    assert [line for line in files.journal if "list" in line or "metadata" in line] == []
    files.now_ms += 1
    logs.close()
    files.now_ms += 1
    files.make_file("/d/t-0/00000000000000000019.log", b"")
    logs = open_directory(files)
    assert logs.open_from_manifest(("t", 0), TOPIC_ID, SMALL) is None
    assert logs.unopened == {("t", 0)}, "for open_log"


@pytest.mark.parametrize("is_opened_between", [False, True])
def test_a_folder_that_changed_after_the_manifest_is_read(is_opened_between: bool) -> None:
    files = new_files()
    close_directory_with_old_folder(files)
    files.now_ms += 1
    files.make_file("/d/t-0/00000000000000000019.log", b"")
    for ending in ("index", "timeindex"):
        files.make_file(f"/d/t-0/00000000000000000019.{ending}", b"")
    files.make_file("/d/t-0/partition.metadata", b"torn")
    if is_opened_between:  # without opening the log
        files.now_ms += 1
        open_directory(files).close()
    logs = open_directory(files)
    assert logs.topic_id(("t", 0)) is None
    log, _ = run(logs.open_log(("t", 0), SMALL))
    assert [segment.base_offset for segment in log.segments][-1] == 19


@pytest.mark.parametrize("change", ["marker without checksum", "torn manifest", "no marker"])
def test_a_manifest_is_valid_only_with_its_marker(change: str) -> None:
    files = new_files()
    logs = open_directory(files)
    fill(logs.create(("t", 0), TOPIC_ID, SMALL), 10)
    logs.close()
    if change == "marker without checksum":
        files.make_file(f"/d/{CLEAN_MARKER}", b'{"version":0,"brokerEpoch":5}')
    elif change == "torn manifest":
        files.make_file(f"/d/{MANIFEST}", files.bytes_of(f"/d/{MANIFEST}")[:-10])
    else:
        files.unlink(f"/d/{CLEAN_MARKER}")
    logs = open_directory(files)
    assert logs.was_clean == (change != "no marker")
    log, report = run(logs.open_log(("t", 0), SMALL))
    assert report.clean == logs.was_clean
    assert log.end_offset == 19
    assert not report.problem


def test_v15_checkpoints_hold_points_starts_and_high_watermarks() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    fill(log, 10)
    log.flush()
    log.move_start(3)
    fill(log, 1)
    logs.note_high_watermark(("t", 0), 17)
    job = result_of(logs.checkpoint_job_in_steps())
    job.run(files)
    assert logs.install_checkpoints(job)
    assert files.bytes_of("/d/recovery-point-offset-checkpoint") == b"0\n1\nt 0 19\n"
    assert files.bytes_of("/d/log-start-offset-checkpoint") == b"0\n1\nt 0 3\n"
    assert files.bytes_of("/d/replication-offset-checkpoint") == b"0\n1\nt 0 17\n"
    files.kill()
    logs = open_directory(files)
    assert logs.high_watermark(("t", 0)) == 17
    log, _ = run(logs.open_log(("t", 0), SMALL))
    assert (log.recovery_point, log.start_offset, log.end_offset) == (19, 3, 20)


def test_a_truncation_lowers_the_stored_recovery_point_first() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    fill(log, 10)
    log.flush()
    logs.close()
    logs = open_directory(files)
    log, _ = run(logs.open_log(("t", 0), SMALL))
    job = result_of(logs.checkpoint_job_in_steps())
    job.run(files)
    log.truncate_to(8)
    stored = files.bytes_of("/d/recovery-point-offset-checkpoint")
    assert decode_offsets(stored, "") == {("t", 0): log.end_offset}
    assert not logs.install_checkpoints(job), "the older job must not raise the point again"
    assert files.bytes_of("/d/recovery-point-offset-checkpoint") == stored
    files.power_loss()
    run(open_directory(files).open_log(("t", 0), SMALL))


def test_many_recovery_points_are_lowered_by_one_write() -> None:
    files = new_files()
    logs = open_directory(files)
    for number in range(5):
        fill(logs.create(("t", number), TOPIC_ID, SMALL), 10)
        logs.logs["t", number].flush()
    job = result_of(logs.checkpoint_job_in_steps())
    job.run(files)
    logs.install_checkpoints(job)
    files.journal = []
    logs.lower_recovery_points(dict.fromkeys(logs.logs, 1))
    syncs = len([line for line in files.journal if line.startswith("sync")])
    for log in logs.logs.values():
        log.truncate_to(4)
        log.truncate_to(1)
    file_syncs = [
        line for line in files.journal if line.startswith("sync ") and "checkpoint" in line
    ]
    assert (syncs, len(file_syncs)) == (2, 1), "the truncations write no checkpoint"


def test_deleting_renames_now_and_unlinks_later() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    fill(log, 10)
    job = log.flush_job()
    assert job is not None
    logs.delete(("t", 0))
    assert [name for name in files.list("/d") if "delete" in name] == [
        f"t-0.{TOPIC_ID.hex()}-delete"
    ]
    job.run(files)  # missing files are no disk failure
    log.flushed(job)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    assert (log.start_offset, log.end_offset) == (0, 0)
    fill(log, 3)
    logs.delete(("t", 0))
    unlink_garbage(files, logs.take_garbage())
    assert logs.take_garbage() == []
    assert [name for name in files.list("/d") if name.startswith("t")] == []
    assert files.open_handles() == 1


def test_deletion_is_completed_after_a_crash() -> None:
    files = new_files()
    logs = open_directory(files)
    fill(logs.create(("t", 0), TOPIC_ID, SMALL), 10)
    logs.delete(("t", 0))
    files.kill()
    logs = open_directory(files)
    assert logs.names() == []
    unlink_garbage(files, logs.take_garbage())
    assert "delete" not in "".join(files.list("/d"))


def test_a_recreated_log_ignores_the_old_recovery_point() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    fill(log, 10)
    log.flush()
    job = result_of(logs.checkpoint_job_in_steps())
    job.run(files)
    logs.install_checkpoints(job)
    logs.delete(("t", 0))
    logs.create(("t", 0), bytes(16), SMALL)
    files.sync_folder("/d")
    files.power_loss()
    log, _ = run(open_directory(files).open_log(("t", 0), SMALL))
    assert log.end_offset == 0


def test_v18_a_failed_sync_takes_all_logs_of_the_directory_offline() -> None:
    files = new_files()
    logs = open_directory(files)
    failing, other = (logs.create(("t", number), TOPIC_ID, SMALL) for number in (0, 1))
    fill(failing, 3)
    fill(other, 3)
    other.flush()
    files.sync_folder("/d/t-0")
    files.faults = [Fault("sync", path="t-0")]
    with pytest.raises(StorageError, match="flushing the log"):
        failing.flush()
    with pytest.raises(StorageError, match="offline"):
        fill(other, 1)
    logs.close()
    assert not files.exists(f"/d/{CLEAN_MARKER}")
    logs = open_directory(files)
    failing, _ = run(logs.open_log(("t", 0), SMALL))
    assert failing.end_offset == 0, (
        "unsynced records are discarded, although the page cache has them"
    )
    other, _ = run(logs.open_log(("t", 1), SMALL))
    assert other.end_offset == 6
    fill(failing, 2)
    logs.close()
    assert "kraftlog-suspect" not in files.list("/d")


def test_a_corrupt_log_does_not_prevent_others_from_opening() -> None:
    files = new_files()
    logs = open_directory(files)
    for number in range(2):
        fill(logs.create(("t", number), TOPIC_ID, SMALL), 3)
        logs.logs["t", number].flush()
    job = result_of(logs.checkpoint_job_in_steps())
    job.run(files)
    logs.install_checkpoints(job)
    files.corrupt(f"/d/t-0/{0:020d}.log", 70, b"\xff\xff")
    files.kill()
    logs = open_directory(files)
    with pytest.raises(CorruptLogError, match="t-0"):
        run(logs.open_log(("t", 0), SMALL))
    run(logs.open_log(("t", 1), SMALL))
    logs.close()
    assert not files.exists(f"/d/{CLEAN_MARKER}"), "the shutdown was not clean"
    with pytest.raises(CorruptLogError, match="t-0"):
        run(open_directory(files).open_log(("t", 0), SMALL))


def test_a_crash_at_any_operation_leaves_a_valid_directory() -> None:
    """Checkpoints, manifest, marker, creation and deletion: all are atomic."""

    class Progress:
        durable: dict[tuple[str, int], int]
        deleted: bool

    def use_directory(files: MemoryFiles, progress: Progress) -> None:
        logs = open_directory(files)
        for number in range(3):
            log = logs.create(("t", number), TOPIC_ID, SMALL)
            fill(log, 12)
            log.flush()
            progress.durable["t", number] = log.end_offset
        job = result_of(logs.checkpoint_job_in_steps())
        job.run(files)
        logs.install_checkpoints(job)
        truncated = logs.logs["t", 0]
        progress.durable["t", 0] = 0
        truncated.truncate_to(11)
        fill(truncated, 2, epoch=1)
        del progress.durable["t", 2]
        logs.delete(("t", 2))
        unlink_garbage(files, logs.take_garbage())
        logs.logs["t", 1].move_start(5)
        logs.close(3)
        progress.durable.update({name: log.end_offset for name, log in logs.logs.items()})
        logs = open_directory(files)
        open_all(logs)
        logs.close(4)

    for seed in range(3):
        operation = 0
        while True:
            files, progress = new_files(), Progress()
            progress.durable = {}
            files.stop_before = files.operations + operation
            try:
                use_directory(files, progress)
            except PowerLost:
                files.power_loss(Random(seed * 7919 + operation) if seed else None)
            else:
                break
            logs = open_directory(files)
            open_all(logs)
            for name, end in progress.durable.items():
                assert logs.logs[name].end_offset >= end
                read_all(logs.logs[name])
            operation += 1
        assert operation > 100


def test_aborted_transactions_are_recovered() -> None:
    files = new_files()
    logs = open_directory(files)
    log = logs.create(("t", 0), TOPIC_ID, SMALL)
    put(log, batch(0, 2, producer_id=1, transactional=True))
    put(log, batch(2, 2, producer_id=2, transactional=True))
    put(log, marker(4, 1, commit=False))
    put(log, marker(5, 2, commit=True))
    aborted = [
        (a.producer_id, a.first_offset, a.last_offset, a.stable_offset)
        for a in log.aborted_transactions(0, 9)
    ]
    assert aborted == [(1, 0, 4, 2)]
    fill(log, 20)
    assert len(log.segments) > 2
    for clean in (True, False):
        if clean:
            logs.close()
        else:
            files.kill()
        logs = open_directory(files)
        log, _ = run(logs.open_log(("t", 0), SMALL))
        recovered = log.aborted_transactions(0, log.end_offset)
        assert [(entry.producer_id, entry.last_offset) for entry in recovered] == [(1, 4)]
        assert log.aborted_transactions(6, log.end_offset) == []
        assert log.producers.ongoing == {}
    assert read_whole(files, log.segments[0].path(".txnindex"))


def test_the_folder_of_a_topic_with_a_long_name_can_be_renamed() -> None:
    """A file name has at most 255 bytes, and a topic name may have 249."""
    files = new_files()
    logs = open_directory(files)
    topic = "x" * 249
    for index in (0, 12345):
        logs.create((topic, index), TOPIC_ID)
        logs.delete((topic, index))
        logs.create((topic, index), TOPIC_ID)
        logs.forget((topic, index))
        logs.rename_as_stray((topic, index))
    names = [name for name in files.list("/d") if name.startswith("x")]
    assert len(names) == 4
    assert {len(name) for name in names} == {255}
    assert not any(parse_folder(name) for name in names)
    logs.release()
