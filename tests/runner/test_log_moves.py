"""Logs are moved between the directories of a node, also during writes, faults and restarts."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.runner.log_moves import RATE_LIMIT
from kraftlog.storage.directory import STRAY
from kraftlog.storage.future_logs import FUTURE
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost
from tests.node.frame_client import FrameClient, create_topics, make_folders, set_config
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in
from tests.virtual_host import VirtualHost, directory_id_of

BROKER = 4
PATHS = ("data", "b", "c")
LOG = "demo", 0
BIG = bytes(100_000)
DELETION = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)


def start(files: MemoryFiles | None = None, **options: Any) -> VirtualHost:
    return VirtualHost(files, directories=PATHS, **options)


def append(host: VirtualHost, *values: bytes) -> int:
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(*values)))
    code: int = produce_result(answer).error_code
    return code


def values(host: VirtualHost, offset: int = 0) -> list[bytes | None]:
    """All values from an offset on, by as many fetches as it takes."""
    fetched: list[bytes | None] = []
    end = host.node.replica_manager.by_log[LOG].high_watermark
    while offset + len(fetched) < end:
        request = fetch(offset + len(fetched))
        fetched += values_in(FrameClient(host).ask(ApiKey.FETCH, 12, request))
    return fetched


def path_of_log(host: VirtualHost) -> str:
    directory = host.node.logs.directory_of(LOG)
    assert directory is not None
    return directory.path


def request_move(host: VirtualHost, path: str, topic: str = "demo", index: int = 0) -> int:
    """Send AlterReplicaLogDirs without waiting for the move; return the error code."""
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
        ]
    )
    client = FrameClient(host)
    client.send(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)
    host.one_turn()
    (result,) = client.take()[0][1].results
    code: int = result.partitions[0].error_code
    return code


def move(host: VirtualHost, path: str) -> None:
    assert request_move(host, path) == 0
    host.settle()
    assert path_of_log(host) == path


def folders(host: VirtualHost) -> dict[str, list[str]]:
    """The folders of `demo` by directory."""
    return {
        path: [name for name in host.files.list(path) if name.startswith("demo-")] for path in PATHS
    }


def host_with_records(count: int = 5) -> VirtualHost:
    host = start()
    create_topics(host, {"demo": 1})
    assert path_of_log(host) == "data"
    for number in range(count):
        assert append(host, b"%d" % number, BIG) == 0
    return host


def test_v18_a_moved_log_has_the_same_records() -> None:
    host = host_with_records()
    before = values(host)
    move(host, "b")
    assert values(host) == before
    assert append(host, b"after") == 0
    assert values(host)[-1] == b"after"


def test_the_controller_learns_the_new_directory() -> None:
    host = host_with_records()
    move(host, "b")
    for _ in range(10):
        host.pass_time(100)
        host.settle()
    topic_id = host.node.image.topic_ids["demo"]
    assert host.node.image.partitions[topic_id, 0].directory(1) == directory_id_of(1, "b")


def test_the_former_folder_is_deleted() -> None:
    host = host_with_records()
    move(host, "b")
    assert folders(host)["b"] == ["demo-0"]
    assert all(name.endswith("-delete") for name in folders(host)["data"])


def test_a_log_moves_on_and_back() -> None:
    host = host_with_records()
    before = values(host)
    for path in ("b", "c", "data", "b", "data"):
        move(host, path)
        assert values(host) == before


def test_a_copy_takes_many_turns_and_is_shown_as_future() -> None:
    host = host_with_records(20)
    assert request_move(host, "c") == 0
    lags = []
    while path_of_log(host) == "data":
        host.turn()
        client = FrameClient(host)
        answer = client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
        shown = {
            (directory.log_dir, partition.is_future_key): partition.offset_lag
            for directory in answer.results
            for topic in directory.topics
            if topic.name == "demo"
            for partition in topic.partitions
        }
        assert set(shown) <= {("data", False), ("c", True), ("c", False)}
        lags.append(shown.get(("c", True), 0))
    assert len(lags) >= 3
    assert lags == sorted(lags, reverse=True)
    assert folders(host)["c"] == ["demo-0"]


def test_records_appended_during_a_move_are_moved_too() -> None:
    host = host_with_records(20)
    assert request_move(host, "b") == 0
    written = 0
    while path_of_log(host) == "data":
        assert append(host, b"meanwhile %d" % written) == 0
        written += 1
    assert written > 3
    assert append(host, b"after") == 0
    expected = [b"meanwhile %d" % number for number in range(written)]
    assert values(host, 40) == [*expected, b"after"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_moved_log_has_its_records_after_a_restart(is_clean: bool) -> None:
    first = host_with_records()
    before = values(first)
    move(first, "b")
    if is_clean:
        first.runner.close()
    else:
        first.files.kill()
    host = start(first.files)
    assert path_of_log(host) == "b"
    assert values(host) == before
    assert append(host, b"after") == 0


@pytest.mark.parametrize("loses_power", [True, False], ids=["power", "kill"])
def test_a_move_survives_a_stop_before_any_operation(loses_power: bool) -> None:
    """The log is in exactly one of the directories; a move whose copy has begun is restarted."""
    stop, places, is_complete = 0, set(), False
    while not is_complete:
        first = host_with_records(3)
        make_folders(first)
        for path in PATHS:
            first.files.sync_all(path)
        first.runner._directories.directory_of(LOG).directory.logs[LOG].flush()
        before = values(first)
        first.files.stop_before = first.files.operations + stop
        try:
            assert request_move(first, "b") == 0
            first.settle()
            is_complete = True
        except PowerLost:
            pass
        first.files.stop_before = None
        if loses_power:
            first.files.power_loss(Random(stop))
        else:
            first.files.kill()
        host = start(first.files)
        assert values(host) == before
        other = "data" if path_of_log(host) == "b" else "b"
        make_folders(host)
        assert folders(host)[path_of_log(host)].count("demo-0") == 1
        assert not [name for name in folders(host)[other] if not name.endswith("-delete")]
        places.add(path_of_log(host))
        stop += 1
    assert stop > 20
    assert places == {"data", "b"}


def test_a_killed_node_restarts_its_moves() -> None:
    first = host_with_records(20)
    before = values(first)
    assert request_move(first, "b") == 0
    for _ in range(3):
        first.turn()
    assert [name for name in folders(first)["b"] if name.endswith(FUTURE)]
    first.files.kill()
    host = start(first.files)
    host.settle()
    assert path_of_log(host) == "b"
    assert values(host) == before


def test_of_two_logs_the_moved_one_is_kept() -> None:
    """The node was killed after the copy was renamed, before the old log was deleted."""
    first = host_with_records()
    make_folders(first)
    move(first, "b")
    leftovers = [name for name in first.files.list("data") if name.startswith("demo-")]
    if leftovers:  # a folder of that name is enough, even if its files are unlinked
        first.files.rename(f"data/{leftovers[0]}", "data/demo-0")
    else:
        first.files.make_folder("data/demo-0")
    before = values(first)
    first.files.kill()
    host = start(first.files)
    assert path_of_log(host) == "b"
    assert values(host) == before
    assert [line for line in host.log_lines if line.startswith("data/demo-0: deleted")]


def test_a_folder_that_no_move_explains_is_set_aside() -> None:
    """The metadata names another directory, and nothing says that it belongs to this topic."""
    first = host_with_records()
    make_folders(first)
    before = values(first)
    first.runner.close()
    first.files.make_folder("c/demo-0")
    host = start(first.files)
    assert values(host) == before
    (stray,) = folders(host)["c"]
    assert stray.endswith(STRAY)


# Moves that end early ----------------------------------------------------------------------------


def begin_move(host: VirtualHost, path: str = "b", turns: int = 3) -> None:
    assert request_move(host, path) == 0
    for _ in range(turns):
        host.one_turn()
    assert path_of_log(host) == "data"
    assert [name for name in folders(host)[path] if name.endswith(FUTURE)]


def has_no_future_copy(host: VirtualHost) -> bool:
    names = [name for names in folders(host).values() for name in names]
    return not [name for name in names if name.endswith(FUTURE)]


def test_a_move_to_the_present_directory_ends_the_move() -> None:
    host = host_with_records(20)
    begin_move(host)
    move(host, "data")
    assert has_no_future_copy(host)


def test_a_move_to_another_directory_replaces_the_first() -> None:
    host = host_with_records(20)
    begin_move(host)
    move(host, "c")
    assert has_no_future_copy(host)
    assert len(values(host)) == 40


def test_deleting_the_topic_ends_the_move() -> None:
    host = host_with_records(20)
    begin_move(host)
    FrameClient(host).ask(ApiKey.DELETE_TOPICS, 5, DELETION)
    host.settle()
    names = [name for names in folders(host).values() for name in names]
    assert all(name.endswith("-delete") for name in names)
    create_topics(host, {"demo": 1})
    assert values(host) == []


def test_a_full_target_ends_the_move() -> None:
    host = host_with_records(20)
    begin_move(host)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, path="b/", times=100))
    host.settle()
    assert path_of_log(host) == "data"
    assert has_no_future_copy(host)
    assert [line for line in host.log_lines if line.startswith("demo-0 stays in data: ")]
    assert append(host, b"after") == 0


def test_a_failed_target_ends_the_move_and_the_log_stays_writable() -> None:
    host = host_with_records(20)
    begin_move(host)
    host.files.faults.append(Fault("pwritev", path="b/"))
    host.settle()
    assert path_of_log(host) == "data"
    assert append(host, b"after") == 0
    assert request_move(host, "b") == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failed_source_ends_the_move() -> None:
    host = host_with_records(20)
    move(host, "b")
    assert request_move(host, "c") == 0
    host.one_turn()
    host.files.faults.append(Fault("pwritev", path="b/demo-0"))
    assert append(host, b"x") == ErrorCode.KAFKA_STORAGE_ERROR
    host.settle()
    assert not host.node.logs.futures()
    assert has_no_future_copy(host)


# Changes of the log during a move ----------------------------------------------------------------


def test_v6_a_truncated_log_is_copied_again() -> None:
    host = host_with_records(20)
    begin_move(host)
    log = host.runner.directory.logs[LOG]
    log.truncate_to(4)
    partition = host.node.replica_manager.by_log[LOG]
    host.settle()
    assert path_of_log(host) == "b"
    moved = host.node.logs.directory_of(LOG)
    assert moved is not None
    assert partition.log == LOG
    assert host.runner.logs[LOG].end_offset == 4


@pytest.mark.parametrize("offset", [3, 39])
def test_records_deleted_meanwhile_are_not_moved(offset: int) -> None:
    host = host_with_records(20)
    begin_move(host)
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [DeleteRecordsTopic(name="demo", partitions=[partition])]
    client = FrameClient(host)
    client.send(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000))
    host.settle()
    (topic,) = client.take()[0][1].topics
    assert topic.partitions[0].low_watermark == offset
    assert path_of_log(host) == "b"
    assert host.runner.logs[LOG].start_offset == offset
    host.settle()
    host.files.kill()
    again = start(host.files)
    assert again.node.replica_manager.by_log[LOG].start == offset


def test_a_throttled_move_is_as_slow_as_its_rate() -> None:
    host = host_with_records(20)
    set_config(host, BROKER, "1", RATE_LIMIT, 100_000)
    assert request_move(host, "b") == 0
    host.settle()
    assert path_of_log(host) == "data"
    took_ms = 0
    while path_of_log(host) == "data":
        host.pass_time(250)
        host.settle()
        took_ms += 250
        assert took_ms < 60_000
    assert took_ms > 10_000


def test_a_moved_log_is_not_compacted_meanwhile() -> None:
    host = host_with_records(20)
    begin_move(host)
    assert host.runner._directories.moves.moves
    compactions = host.runner._directories.directory_of(LOG)._compactions
    log = host.runner.directory.logs[LOG]
    log.config = log.config.replace(compacted=True)
    log.roll(0)
    log.flush()
    assert compactions._candidate(host.node, LOG, log, host.now) is None
    host.settle()
    moved = host.runner.logs[LOG]
    assert moved is not log
    target_compactions = host.runner._directories.directory_of(LOG)._compactions
    moved.roll(0)
    moved.flush()
    assert target_compactions._candidate(host.node, LOG, moved, host.now) is not None


# Requests that are refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "topic", "index", "code"),
    [
        ("nowhere", "demo", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("b", "demo", 1, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("b", "unknown", 0, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("b", "t" * 220, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b/", "demo", 0, ErrorCode.NONE),
    ],
)
def test_alter_replica_log_dirs_reports_what_it_cannot_move(
    path: str, topic: str, index: int, code: int
) -> None:
    host = host_with_records(1)
    assert request_move(host, path, topic, index) == code
