"""Strays: logs found at a start that belong to no partition, or seem to.

A start replays the whole metadata log, with topics that were deleted since and the later topics of
the same names. The records about deleted topics must not touch a folder.
"""

from __future__ import annotations

import errno

import pytest

from kraftlog.effects import DeleteLog, OpenLog
from kraftlog.errors import ErrorCode
from kraftlog.runner.log_lifecycle import FULL_BACKOFF_MS
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.runner.runner import REPLAY_BYTES_PER_TURN
from kraftlog.storage.checkpoints import PARTITION_METADATA
from kraftlog.storage.directory import STRAY, LogDirectory
from kraftlog.storage.disk import unlink_if_there
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import (
    FrameClient,
    ask_settled,
    create_topics,
    make_folders,
    make_host,
)
from tests.node.test_requests import batch, fetch, fetched_partition, produce
from tests.virtual_host import SETTINGS, VirtualHost

ANOTHER_ID = b"\x07" * 16


def delete(host: VirtualHost, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, request)


def write(host: VirtualHost) -> int:
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"acknowledged")))
    return int(answer.responses[0].partition_responses[0].error_code)


def records_in(host: VirtualHost) -> int:
    """How many records a consumer of `demo` sees."""
    return int(fetched_partition(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0))).high_watermark)


def folders(host: VirtualHost, topic: str) -> list[str]:
    return [name for name in host.files.list("data") if name.startswith(f"{topic}-")]


def stop(host: VirtualHost, *, clean: bool) -> None:
    if clean:
        host.runner.close()
    else:
        host.files.kill()


def host_with_recreated_topics() -> VirtualHost:
    """`demo` is the third topic of its name; the first two are replayed in earlier turns."""
    host = VirtualHost()
    for number in range(3):
        if number:
            delete(host, "demo")
        create_topics(host, {"demo": 1})
        create_topics(host, {f"much-{number}": 2 * REPLAY_BYTES_PER_TURN // 100})
        delete(host, f"much-{number}")
    assert host.node.quorum.end > 6 * REPLAY_BYTES_PER_TURN // 100
    return host


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_recreated_topic_keeps_its_records(clean: bool) -> None:
    """V15: each start replays the deleted topics, which had the same folder."""
    host = host_with_recreated_topics()
    assert write(host) == ErrorCode.NONE
    for count in range(1, 3):
        stop(host, clean=clean)
        host = VirtualHost(host.files)
        assert records_in(host) == count
        assert write(host) == ErrorCode.NONE
    assert host.log_lines == []


def test_a_recreated_topic_survives_a_kill_in_any_turn() -> None:
    """V15: the kill may come before, during or after the replay of the deleted topics."""
    host = host_with_recreated_topics()
    assert write(host) == ErrorCode.NONE
    turns = 0
    while True:
        host.files.kill()
        host = VirtualHost(host.files, settled=False)
        for _ in range(turns):
            host.deliver()
            host.one_turn()
        turns += 1
        if host.node.is_ready and host.node.replica_manager.partitions and not host.runner.has_work:
            break
    host.files.kill()
    assert turns > 3
    assert records_in(VirtualHost(host.files)) == 1


def test_logs_without_a_partition_become_strays() -> None:
    """C260: as in Kafka, their records are kept, as the metadata may be wrong."""
    first = make_host(demo=1)
    assert write(first) == ErrorCode.NONE
    first.runner.close()
    directory = LogDirectory(first.files, "data")
    for index in range(7):
        directory.create(("left", index), ANOTHER_ID)
    directory.close()
    expected = [f"left-{index}.{ANOTHER_ID.hex()}{STRAY}" for index in range(7)]
    host = VirtualHost(first.files, settled=False)
    while not host.node.replica_manager.is_registered:
        assert folders(host, "left") == [f"left-{index}" for index in range(7)]
        host.deliver()
        host.one_turn()
    host.settle()
    [line] = host.log_lines
    assert line.startswith(
        "data: renamed stray partitions, which are not assigned to this broker, to end in "
    )
    assert line.endswith(f"{STRAY}: left-0, left-1, left-2, left-3, left-4 and 2 more")
    for clean in (True, False):
        host.pass_time(10 * 60_000)
        assert folders(host, "left") == expected
        assert records_in(host) == 1
        stop(host, clean=clean)
        host = VirtualHost(host.files)
        assert host.log_lines == []


@pytest.mark.parametrize("has_id", [True, False], ids=["another id", "no id"])
def test_a_log_with_another_topic_id_becomes_a_stray(has_id: bool) -> None:
    """V15, C259: a topic that was recreated while the broker was down, or before a crash."""
    first = make_host(demo=1)
    assert write(first) == ErrorCode.NONE
    first.runner.close()
    if has_id:
        directory = LogDirectory(first.files, "data")
        directory.delete(("demo", 0))
        directory.create(("demo", 0), ANOTHER_ID)
        directory.close()
    else:
        unlink_if_there(first.files, f"data/demo-0/{PARTITION_METADATA}")
    host = VirtualHost(first.files)
    stored_id = ANOTHER_ID if has_id else bytes(16)
    stray = f"demo-0.{stored_id.hex()}{STRAY}"
    assert stray in folders(host, "demo")
    assert host.log_lines == [
        f"data/demo-0: belongs to a former topic of this name; renamed to data/{stray}"
    ]
    assert (records_in(host), write(host), records_in(host)) == (0, ErrorCode.NONE, 1)


def restart_with_foreign_log(host: VirtualHost, name: tuple[str, int]) -> VirtualHost:
    """Restart a host whose directory got a log of another topic id while it was stopped."""
    host.runner.close()
    directory = LogDirectory(host.files, "data")
    if name in directory.unopened:
        directory.delete(name)
    directory.create(name, ANOTHER_ID)
    directory.close()
    return VirtualHost(host.files, settled=False)


def test_a_log_waits_until_a_stray_of_its_name_is_renamed() -> None:
    """If the rename fails and a retry finds the folder still there, that is no disk failure."""
    host = restart_with_foreign_log(make_host(demo=1), ("demo", 0))
    host.files.faults.append(Fault("rename", errno.ENOSPC, "demo-0", times=2))
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ):
        host.settle()
        assert write(host) == code
        host.pass_time(FULL_BACKOFF_MS)
    assert f"demo-0.{ANOTHER_ID.hex()}{STRAY}" in folders(host, "demo")
    assert records_in(host) == 1


def test_deleting_an_unopened_log_makes_another_logs_folder_a_stray() -> None:
    host = restart_with_foreign_log(make_host(), ("left", 0))
    log, topic_id = ("left", 0), bytes(15) + b"\x01"
    assert host.runner.directory.unopened >= {log}
    host.node.emit(OpenLog(log, topic_id, host.node.topic_configs.of("left").config))
    host.node.emit(DeleteLog(log, topic_id))
    host.settle()
    stray = f"left-0.{ANOTHER_ID.hex()}{STRAY}"
    assert folders(host, "left") == [stray]
    assert host.log_lines == [
        f"data/left-0: belongs to a former topic of this name; renamed to data/{stray}"
    ]


def host_with_strays(delay_ms: int, *names: str) -> VirtualHost:
    """A host whose directory has these folders, each with a file."""
    files = MemoryFiles()
    files.make_folder("data")
    for name in names:
        files.make_folder(f"data/{name}")
        files.make_file(f"data/{name}/00000000000000000000.log", b"x")
    host = VirtualHost(files, f"{SETTINGS}kraftlog.stray.delete.delay.ms={delay_ms}")
    host.pass_time(INTERVAL_MS)  # from now on the delay counts
    return host


def pass_intervals(host: VirtualHost, count: int) -> None:
    for _ in range(count):
        host.pass_time(INTERVAL_MS)
        host.settle()


def test_v5_a_stray_is_deleted_after_the_delay_and_that_is_logged() -> None:
    """Only folders that were renamed as strays: no others, and no topic with such a name."""
    stray, second = f"left-0.{ANOTHER_ID.hex()}{STRAY}", f"left-1.{ANOTHER_ID.hex()}2{STRAY}"
    others = [f"mine{STRAY}", f"mine-0.copy{STRAY}"]
    host = host_with_strays(10 * INTERVAL_MS, stray, second, *others)
    create_topics(host, {f"live.{ANOTHER_ID.hex()}{STRAY}": 1})
    make_folders(host)
    before = {name for name in host.files.list("data") if STRAY in name}
    assert len(before) == 5
    pass_intervals(host, 9)
    assert before <= {*host.files.list("data")}
    assert host.log_lines == []
    pass_intervals(host, 1)
    assert before - {*host.files.list("data")} == {stray, second}
    assert not [name for name in host.files.list("data") if name.endswith("-delete")]
    [line] = host.log_lines
    assert line == (
        "data: deleted stray partitions, which have not been assigned to this broker for "
        f"{10 * INTERVAL_MS} ms (kraftlog.stray.delete.delay.ms): {stray}, {second}"
    )


def test_v4_a_stray_of_an_assigned_partition_is_kept() -> None:
    """Its topic was unknown when it was renamed, because the metadata was wrong."""
    host = host_with_strays(INTERVAL_MS)
    create_topics(host, {"demo": 1})
    [(topic_id, _)] = host.node.replica_manager.partitions
    stray = f"demo-0.{topic_id.hex()}{STRAY}"
    host.files.make_folder(f"data/{stray}")
    pass_intervals(host, 5)
    assert stray in folders(host, "demo")
    delete(host, "demo")
    pass_intervals(host, 3)
    assert folders(host, "demo") == []


def test_strays_are_kept_without_a_delay_as_in_kafka() -> None:
    stray = f"left-0.{ANOTHER_ID.hex()}{STRAY}"
    host = host_with_strays(-1, stray)
    for _ in range(3):
        host.pass_time(400 * 24 * 3_600_000)
        host.settle()
    assert folders(host, "left") == [stray]


def test_a_stray_that_cannot_be_renamed_stays_and_is_logged() -> None:
    stray = f"left-0.{ANOTHER_ID.hex()}{STRAY}"
    host = host_with_strays(INTERVAL_MS, stray)
    host.files.faults.append(Fault("rename", errno.ENOSPC, "left-0", times=1))
    pass_intervals(host, 1)
    assert folders(host, "left") == [stray]
    assert host.log_lines[0].startswith(f"data/{stray}: renaming the folder: ")
    pass_intervals(host, 3)
    assert folders(host, "left") == []


def test_strays_are_renamed_even_if_the_node_stops_at_once() -> None:
    first = make_host(demo=1)
    first.runner.close()
    directory = LogDirectory(first.files, "data")
    for index in range(100):
        directory.create(("left", index), ANOTHER_ID)
    directory.close()
    host = VirtualHost(first.files, settled=False)
    while not host.log_lines:
        host.deliver()
        host.one_turn()
    assert any(not name.endswith(STRAY) for name in folders(host, "left")), (
        "only a few are renamed in a turn"
    )
    host.deliver()  # a flush that is under way ends first
    host.runner.close()
    assert all(name.endswith(STRAY) for name in folders(host, "left"))


def test_leftovers_of_a_deleted_topic_are_removed_at_the_next_start() -> None:
    """A metadata record deleted its logs, so they do not become strays."""
    first = make_host(demo=1, many=100)
    make_folders(first)
    request = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    client = FrameClient(first)
    client.send(ApiKey.DELETE_TOPICS, 5, request)
    while not client.take():
        first.deliver()
        first.one_turn()
    left = [name for name in folders(first, "many") if not name.endswith("-delete")]
    assert left, "only a few are renamed in a turn"
    first.files.kill()
    host = VirtualHost(first.files)
    host.pass_time(10 * 60_000)
    host.settle()
    assert (folders(host, "many"), host.log_lines) == ([], [])
