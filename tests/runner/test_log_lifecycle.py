"""Logs are opened, created and deleted in slices, so that a turn stays short.

The tests count the work of a turn instead of measuring its time. Meanwhile each request of another
client gets its response in the same turn.
"""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kraftlog.effects import DeleteLog
from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.snapshots import RECORDS_IN_BATCH
from kraftlog.runner.log_lifecycle import BYTES_PER_TURN, FOLDER_COST, FULL_BACKOFF_MS, STEP_COST
from kraftlog.runner.new_folders import DELAY_MS, FOLDERS_PER_TURN, MAX_DELAY_MS
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog_simulator.files import Fault
from tests.node.frame_client import (
    FrameClient,
    ask_settled,
    create_topics,
    make_folders,
    make_host,
)
from tests.node.test_requests import batch, produce
from tests.virtual_host import SETTINGS, VirtualHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.wire.schema import Message

STEPS_PER_TURN = BYTES_PER_TURN // STEP_COST
LOGS = 3 * STEPS_PER_TURN


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_turn_opens_a_bounded_number_of_logs(clean: bool) -> None:
    first = make_host(demo=1, many=LOGS)
    for index in range(LOGS):
        request = produce(batch(b"x"), topic="many", index=index)
        FrameClient(first).ask(ApiKey.PRODUCE, 9, request)
    if clean:
        first.runner.close()
    else:
        first.files.kill()
    host = VirtualHost(first.files, settled=False)
    online: list[int] = []
    while not online or online[-1] < LOGS + 1:
        host.deliver()
        host.one_turn()
        online.append(
            sum(partition.is_open for partition in host.node.replica_manager.partitions.values())
        )
        assert len(online) < LOGS
    opened = [after - before for before, after in zip([0, *online], online, strict=False)]
    assert max(opened) <= STEPS_PER_TURN


DELETIONS_PER_TURN = BYTES_PER_TURN // FOLDER_COST
MANY = 400


def create_many() -> CreateTopicsRequest:
    topic = CreatableTopic(
        name="many", num_partitions=MANY, replication_factor=1, assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=[topic])


def delete(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)


def progress_of_each_turn(
    host: VirtualHost, key: int, request: Message, version: int, done: Callable[[], int]
) -> list[int]:
    """How much each turn after a request adds to `done`, while another client produces."""
    FrameClient(host).send(key, version, request)
    other = FrameClient(host)
    progress = [done()]
    while host.node.has_work or host.runner.has_work or progress[-1] < MANY:
        assert len(progress) < MANY
        host.deliver()
        other.send(ApiKey.PRODUCE, 9, produce(batch(b"meanwhile")))
        host.one_turn()
        assert other.take(), "a request gets its response in the same turn"
        progress.append(done())
    return [after - before for before, after in pairwise(progress)]


def open_logs(host: VirtualHost) -> int:
    return sum(name[0] == "many" for name in host.runner.directory.logs)


def folders(host: VirtualHost) -> list[str]:
    """The folders of topic `many` that are not marked as deleted."""
    names = host.files.list("data")
    return [name for name in names if name.startswith("many-") and not name.endswith("-delete")]


def test_many_logs_are_created_in_slices() -> None:
    host = make_host()
    steps = progress_of_each_turn(
        host, ApiKey.CREATE_TOPICS, create_many(), 7, lambda: open_logs(host)
    )
    assert max(steps) == STEPS_PER_TURN
    assert sum(steps) == MANY


def test_folders_of_new_logs_are_made_later_and_in_slices() -> None:
    """Creating a folder takes longer than everything else about a new partition."""
    host = make_host(many=MANY)
    assert (open_logs(host), folders(host)) == (MANY, [])
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="many", index=7))
    assert folders(host) == ["many-7"], "its first record needs it"
    host.pass_time(DELAY_MS)
    made = [len(folders(host))]
    while host.runner.has_work:
        host.one_turn()
        made.append(len(folders(host)))
    assert max([after - before for before, after in pairwise(made)]) <= FOLDERS_PER_TURN
    assert made[-1] == MANY


def test_folders_of_new_logs_do_not_wait_for_ever() -> None:
    host = make_host(demo=1)
    for number in range(MAX_DELAY_MS // (DELAY_MS - 1) + 1):
        create_topics(host, {f"next-{number}": 1})
        host.pass_time(DELAY_MS - 1)
    assert "demo-0" in host.files.list("data")


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_log_whose_folder_was_never_made_is_created_again(clean: bool) -> None:
    first = make_host(many=3)
    FrameClient(first).ask(ApiKey.PRODUCE, 9, produce(batch(b"kept"), topic="many", index=1))
    if clean:
        first.runner.close()
    else:
        first.files.kill()
    host = VirtualHost(first.files)
    assert host.log_lines == []
    offsets = []
    for index in range(3):
        request = produce(batch(b"x"), topic="many", index=index)
        answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, request)
        offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == [0, 1, 0]


def test_many_logs_are_deleted_in_slices() -> None:
    """Each turn renames a few of their folders, which marks them as deleted."""
    host = make_host(many=MANY)
    make_folders(host)
    steps = progress_of_each_turn(
        host, ApiKey.DELETE_TOPICS, delete("many"), 5, lambda: MANY - len(folders(host))
    )
    assert max(steps) == DELETIONS_PER_TURN
    assert sum(steps) == MANY
    assert open_logs(host) == 0


def test_a_request_for_an_unopened_log_is_retriable() -> None:
    host = make_host()
    client = FrameClient(host)
    client.send(ApiKey.CREATE_TOPICS, 7, create_many())
    client.await_responses()

    def write() -> int:
        request = produce(batch(b"x"), topic="many", index=MANY - 1)
        answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, request)
        return int(answer.responses[0].partition_responses[0].error_code)

    assert write() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.settle()
    assert write() == ErrorCode.NONE


def test_a_group_with_an_unopened_log_is_loading() -> None:
    host = make_host()
    FrameClient(host).send(ApiKey.CREATE_TOPICS, 7, create_many())
    client = FrameClient(host)
    client.send(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["group"]))
    [(_, found)] = client.await_responses()
    assert found.coordinators[0].error_code == ErrorCode.NONE
    request = DescribeGroupsRequest(groups=["group"], include_authorized_operations=False)
    for code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE):
        answer = FrameClient(host).ask(ApiKey.DESCRIBE_GROUPS, 5, request)
        assert answer.groups[0].error_code == code
        host.settle()


def test_a_log_deleted_during_creation_leaves_nothing() -> None:
    host = make_host()
    client = FrameClient(host)
    client.send(ApiKey.CREATE_TOPICS, 7, create_many())
    client.await_responses()
    assert 0 < open_logs(host) < MANY
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, delete("many"))
    assert (open_logs(host), folders(host)) == (0, [])


def test_a_recreated_topic_has_its_own_logs() -> None:
    """Its logs wait until the old folders are renamed."""
    host = make_host(many=MANY)
    make_folders(host)
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"old"), topic="many", index=MANY - 1))
    client = FrameClient(host)
    client.send(ApiKey.DELETE_TOPICS, 5, delete("many"))
    client.await_responses()
    assert folders(host), "some are not deleted yet"
    create_topics(host, {"many": MANY})
    make_folders(host)
    new_id = host.node.image.topic_ids["many"]
    assert {host.runner.directory.topic_id(("many", index)) for index in range(MANY)} == {new_id}
    request = produce(batch(b"new"), topic="many", index=MANY - 1)
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, request)
    outcome = answer.responses[0].partition_responses[0]
    assert (outcome.error_code, outcome.base_offset) == (ErrorCode.NONE, 0)


def test_a_shutdown_completes_pending_deletions() -> None:
    host = make_host(many=MANY)
    make_folders(host)
    client = FrameClient(host)
    client.send(ApiKey.DELETE_TOPICS, 5, delete("many"))
    client.await_responses()
    assert folders(host)
    host.runner.close()
    assert folders(host) == []


def test_a_metadata_snapshot_is_written_a_batch_a_turn() -> None:
    host = VirtualHost(settings=f"{SETTINGS}metadata.log.max.record.bytes.between.snapshots=9999\n")
    create_topics(host, {"many": 4 * RECORDS_IN_BATCH})
    names = host.files.list("data/__cluster_metadata-0")
    assert any(name.endswith(".checkpoint") for name in names)
    quorum = host.node.quorum
    quorum.snapshotter.take(host.node.image.records(), quorum.applied, host.now)
    turns = 0
    while host.node.has_work or host.runner.has_work:
        host.one_turn()
        host.deliver()
        turns += 1
    assert turns > 4, "a turn writes one batch, so that it can serve clients before the next"


def test_unreadable_partition_metadata_takes_only_its_log_offline() -> None:
    first = make_host(demo=1, other=1)
    make_folders(first)
    first.files.kill()
    first.files.faults.append(Fault("open", errno.EACCES, "demo-0/partition.metadata"))
    host = VirtualHost(first.files)
    assert any("partition.metadata: reading the topic id" in line for line in host.log_lines)
    codes = {}
    for topic in ("demo", "other"):
        answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic=topic))
        codes[topic] = answer.responses[0].partition_responses[0].error_code
    assert codes == {"demo": ErrorCode.NOT_LEADER_OR_FOLLOWER, "other": ErrorCode.NONE}


def expect_a_log_at_the_third_try(host: VirtualHost) -> None:
    """Produce fails twice while the disk is full, then succeeds."""
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ):
        answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="many"))
        assert answer.responses[0].partition_responses[0].error_code == code
        host.pass_time(FULL_BACKOFF_MS)
        host.settle()


def write(host: VirtualHost) -> int:
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="many"))
    return int(answer.responses[0].partition_responses[0].error_code)


def test_a_first_record_waits_for_disk_space() -> None:
    """Until there is space, its Produce fails, and the incomplete folder is deleted."""
    host = make_host(many=1)
    fault = Fault("pwritev", errno.ENOSPC, "many-0/partition.metadata", times=2)
    host.files.faults.append(fault)
    for _ in range(2):
        assert write(host) != ErrorCode.NONE
        assert folders(host) == []
    assert write(host) == ErrorCode.NONE


def test_a_folder_waits_for_disk_space() -> None:
    host = make_host(many=2)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "many-0/partition.metadata"))
    make_folders(host)
    assert folders(host) == []
    assert host.log_lines[-1].endswith("No space left on device")
    host.pass_time(FULL_BACKOFF_MS)
    host.settle()
    assert folders(host) == ["many-0", "many-1"]


def test_a_log_that_lacked_disk_space_does_not_block_the_next() -> None:
    host = make_host(many=1)
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "many-0/partition.metadata"))
    make_folders(host)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, delete("many"))
    create_topics(host, {"many": 1})
    assert write(host) == ErrorCode.NONE
    assert folders(host) == ["many-0"]


RENAME_FAILED = "data/many-0: renaming the folder: No space left on device"


def test_a_recreated_topic_waits_until_the_old_folder_is_renamed() -> None:
    host = make_host(many=1)
    make_folders(host)
    host.files.faults.append(Fault("rename", errno.ENOSPC, "many-0", times=2))
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, delete("many"))
    create_topics(host, {"many": 1})
    expect_a_log_at_the_third_try(host)
    assert host.log_lines == [RENAME_FAILED] * 2


def test_a_shutdown_reports_folders_it_could_not_rename() -> None:
    host = make_host(many=1)
    make_folders(host)
    host.files.faults.append(Fault("rename", errno.ENOSPC, "many-0", times=2))
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, delete("many"))
    host.runner.close()
    assert folders(host) == ["many-0"]
    assert host.log_lines == [RENAME_FAILED] * 2


def test_failing_deletion_is_logged_once() -> None:
    """A topic may have thousands of logs, all in one offline directory."""
    host = make_host(demo=1, many=MANY)
    count = len(host.log_lines)
    topic_id = host.node.image.topic_ids["many"]
    host.runner.directory.disk.fail_unless_full("a test", OSError(errno.EIO, "Input/output error"))
    for index in range(MANY):
        host.node.emit(DeleteLog(("many", index), topic_id))
    while host.runner.has_work or host.node.has_work:
        host.one_turn()
    (line,) = host.log_lines[count:]
    assert line.startswith("data: offline until the node is restarted")


def test_logs_of_equal_settings_share_their_config() -> None:
    host = make_host(demo=2, other=1)
    logs = host.runner.directory.logs
    configs = [logs[name].config for name in (("demo", 0), ("demo", 1), ("other", 0))]
    assert configs == [configs[0]] * 3
    assert all(config is configs[0] for config in configs)
