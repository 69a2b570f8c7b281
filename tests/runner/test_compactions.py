"""A node compacts its logs by their topics' configs, one at a time, in the background."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.effects import DeleteLog, OpenLog
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.runner import compaction, log_maintenance
from kraftlog.storage.checkpoints import PARTITION_METADATA
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import Fault
from tests.node.frame_client import (
    FrameClient,
    configured_host,
    create_topics,
    make_folders,
    make_host,
    set_config,
)
from tests.node.test_producers import Writer
from tests.node.test_requests import produce, produce_result
from tests.storage.compacting import latest, records_of
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog_simulator.files import MemoryFiles

NAME = ("demo", 0)
ANOTHER_ID = b"\x07" * 16
BACKOFF_MS = 15_000
FOLDER = "data/demo-0"
COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 300}


def keyed(number: int, timestamp: int = 0) -> bytes:
    builder = BatchBuilder()
    builder.append(timestamp, b"key-%d" % (number % 2), b"%d" % number * 20)
    return builder.build()


def write_records(host: VirtualHost, count: int = 20) -> VirtualHost:
    for number in range(count):
        assert Writer(host).write(keyed(number))[0] == ErrorCode.NONE
    return host


def count_records(host: VirtualHost) -> int:
    return len(records_of(host.runner.directory.logs[NAME]))


def flush_and_compact(host: VirtualHost) -> VirtualHost:
    """Let time pass until sealed segments are durable, and then until they are compacted."""
    host.pass_time(log_maintenance.INTERVAL_MS)
    host.pass_time(BACKOFF_MS)
    host.settle()
    return host


def test_compaction_keeps_the_latest_records_and_stores_its_offset() -> None:
    host = write_records(configured_host(**COMPACT))
    log = host.runner.directory.logs[NAME]
    before, active = latest(records_of(log)), log.segments[-1].base_offset
    flush_and_compact(host)
    assert count_records(host) <= 4
    assert latest(records_of(log)) == before
    assert log.clean_offset == active
    host.pass_time(log_maintenance.INTERVAL_MS)
    stored = host.files.bytes_of("data/cleaner-offset-checkpoint").decode()
    assert f"demo 0 {active}\n" in stored
    assert not host.log_lines, "only slow compactions are logged"


def test_a_topic_is_compacted_once_its_policy_changes() -> None:
    host = flush_and_compact(write_records(configured_host(internal_segment_bytes=300)))
    assert count_records(host) == 20
    set_config(host, TOPIC, "demo", "cleanup.policy", "compact")
    host.pass_time(BACKOFF_MS)
    host.settle()
    assert count_records(host) <= 4


def test_a_disabled_cleaner_compacts_nothing() -> None:
    host = write_records(configured_host(**COMPACT))
    set_config(host, BROKER, "", "log.cleaner.threads", 0)
    assert count_records(flush_and_compact(host)) == 20


def test_a_log_that_is_dirty_again_is_compacted_again() -> None:
    host = write_records(configured_host(**COMPACT))
    flush_and_compact(host)
    size = host.runner.directory.logs[NAME].size_bytes
    write_records(host, 40)
    flush_and_compact(host)
    assert host.runner.directory.logs[NAME].size_bytes <= 2 * size


def test_many_dirty_logs_are_compacted_one_after_the_other() -> None:
    """The pause of log.cleaner.backoff.ms is for an idle cleaner."""
    host = make_host(other=1)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": 300}
    create_topics(host, {"many": 5}, settings)
    client = FrameClient(host)
    for index in range(5):
        for number in range(20):
            request = produce(keyed(number), topic="many", index=index)
            assert (
                produce_result(client.ask(ApiKey.PRODUCE, 9, request)).error_code == ErrorCode.NONE
            )
    host.pass_time(log_maintenance.INTERVAL_MS)
    host.pass_time(BACKOFF_MS)
    host.settle()
    logs = host.runner.directory.logs
    assert all(len(records_of(logs["many", index])) <= 4 for index in range(5))


def test_the_dirtiest_log_is_compacted_first() -> None:
    host = make_host(other=1)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": 300}
    create_topics(host, {"even": 2}, settings)
    client = FrameClient(host)

    def write_and_compact(*counts: int) -> list[int]:
        """Append this number of records to each partition; return the order of compaction."""
        for index, count in enumerate(counts):
            for number in range(count):
                request = produce(keyed(number), topic="even", index=index)
                result = produce_result(client.ask(ApiKey.PRODUCE, 9, request))
                assert result.error_code == ErrorCode.NONE
        host.pass_time(log_maintenance.INTERVAL_MS)
        order: list[int] = []
        logs = [host.runner.directory.logs["even", index] for index in range(2)]
        before = [log.clean_offset for log in logs]
        host.now = Now(host.now.monotonic_ms + BACKOFF_MS, host.now.wall_ms + BACKOFF_MS)
        for _ in range(100):
            host.one_turn()
            host.deliver()
            order += [i for i in (0, 1) if i not in order and logs[i].clean_offset != before[i]]
        return order

    write_and_compact(20, 20)
    assert write_and_compact(12, 60) == [1, 0]
    assert write_and_compact(80, 12) == [0, 1]


def test_sealed_segments_are_compacted_once_they_are_durable() -> None:
    """The check requests the flush, and is repeated a second later."""
    host = write_records(configured_host(**COMPACT))
    host.pass_time(BACKOFF_MS)
    assert count_records(host) == 20
    host.pass_time(compaction.RECHECK_AFTER_FLUSH_MS)
    host.settle()
    assert count_records(host) <= 4


@pytest.mark.parametrize("event", ["deleted", "truncated"])
def test_the_compaction_of_a_deleted_or_truncated_log_is_dropped(event: str) -> None:
    host = write_records(configured_host(**COMPACT))
    host.pass_time(log_maintenance.INTERVAL_MS)
    host.now = Now(host.now.monotonic_ms + BACKOFF_MS, host.now.wall_ms + BACKOFF_MS)
    host.one_turn()
    directory = host.runner.directory
    log = directory.logs[NAME]
    if event == "truncated":
        log.truncate_to(19)
    else:
        directory.delete(NAME)
    host.deliver()
    assert host.runner.has_work == (event == "truncated")
    while host.runner.has_work:
        host.runner._directories.maintain(host.node, host.now)
    assert not host.log_lines
    if event == "truncated":
        assert not [name for name in host.files.list(FOLDER) if name.endswith(".cleaned")]
        assert len(records_of(log)) == 19
    assert log.clean_offset == 0


def test_a_failed_compaction_is_retried_after_a_pause() -> None:
    host = write_records(configured_host(**COMPACT))
    host.files.faults.append(Fault("sync", errno.ENOSPC, "log.cleaned"))
    flush_and_compact(host)
    assert len(host.log_lines) == 1
    assert "compaction failed" in host.log_lines[0]
    assert count_records(host) == 20
    assert host.runner.directory.disk.failure is None
    flush_and_compact(host)
    assert count_records(host) == 20, "no retry before the pause"
    host.pass_time(compaction.PAUSE_MS)
    host.settle()
    assert count_records(host) <= 4


def test_leftovers_of_a_killed_compaction_do_not_enter_the_next_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker writes by path, so its file may be in the folder of a recreated topic."""
    host = write_records(configured_host(**COMPACT))
    host.pass_time(log_maintenance.INTERVAL_MS)

    def die_after_recreation(files: MemoryFiles, task: dict[str, Any]) -> None:
        host.node.emit(DeleteLog(NAME, host.node.replica_manager.by_log[NAME].topic_id))
        host.node.emit(OpenLog(NAME, ANOTHER_ID, host.node.topic_configs.of("demo").config))
        host.one_turn()
        files.make_file(f"{task['folder']}/{task['groups'][0][0][0]:020d}.log.cleaned", b"old")
        raise ChildProcessError("the worker process exited with -9")

    monkeypatch.setattr("tests.virtual_host.clean", die_after_recreation)
    host.pass_time(BACKOFF_MS)
    assert host.runner.directory.logs[NAME].topic_id == ANOTHER_ID
    make_folders(host)
    assert host.files.list(FOLDER) == [PARTITION_METADATA]


@pytest.mark.parametrize(
    ("operation", "path"), [("rename", ".log.cleaned"), ("sync_folder", FOLDER)]
)
def test_a_disk_that_fails_while_segments_are_replaced_is_offline(
    operation: str, path: str
) -> None:
    host = write_records(configured_host(**COMPACT))
    host.pass_time(log_maintenance.INTERVAL_MS)
    host.settle()
    host.files.faults.append(Fault(operation, errno.EIO, path))
    host.pass_time(BACKOFF_MS)
    host.settle()
    assert host.runner.directory.disk.failure is not None
    assert host.log_lines


def test_a_clean_shutdown_drops_a_compaction_in_progress() -> None:
    host = write_records(configured_host(**COMPACT))
    host.pass_time(log_maintenance.INTERVAL_MS)
    host.now = Now(host.now.monotonic_ms + BACKOFF_MS, host.now.wall_ms + BACKOFF_MS)
    host.one_turn()
    host.deliver()
    assert [name for name in host.files.list(FOLDER) if name.endswith(".cleaned")]
    host.runner.close()
    assert not [name for name in host.files.list(FOLDER) if name.endswith(".cleaned")]


def test_a_slow_compaction_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SLOW_MS", 0)
    host = flush_and_compact(write_records(configured_host(**COMPACT)))
    assert len(host.log_lines) == 1
    assert "bytes compacted in 0 s" in host.log_lines[0]
