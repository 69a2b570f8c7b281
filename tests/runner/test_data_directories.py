"""Several log directories (V18): where logs go, and what a failed directory takes with it."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import DirectoryId
from kraftlog.replication.directory_assignments import DirectoryAssignments
from kraftlog.runner.data_directory import FAILED_PER_TURN
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_folders
from tests.node.test_requests import batch, fetch, fetched_partition, produce, produce_result
from tests.runner.test_lost_records import opened_logs
from tests.virtual_host import VirtualHost, directory_id_of

PATHS = ("data", "b", "c")
C = directory_id_of(1, "c")
#: A type of ElectLeaders.
UNCLEAN = 1
DELETION = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)


def start(files: MemoryFiles | None = None, **options: Any) -> VirtualHost:
    return VirtualHost(files, directories=options.pop("directories", PATHS), **options)


def append(host: VirtualHost, index: int, topic: str = "demo") -> int:
    response = FrameClient(host).ask(
        ApiKey.PRODUCE, 9, produce(batch(b"x"), topic=topic, index=index)
    )
    code: int = produce_result(response).error_code
    return code


def paths_of_logs(host: VirtualHost) -> dict[tuple[str, int], str]:
    paths = {}
    for log in host.node.replica_manager.by_log:
        directory = host.node.logs.directory_of(log)
        if directory is not None:
            paths[log] = directory.path
    return paths


def described_directories(host: VirtualHost) -> dict[str, tuple[int, set[int]]]:
    """The error code of each directory, and the partitions of `demo` in it."""
    response = FrameClient(host).ask(
        ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)
    )
    return {
        directory.log_dir: (
            directory.error_code,
            {
                partition.partition_index
                for topic in directory.topics
                if topic.name == "demo"
                for partition in topic.partitions
            },
        )
        for directory in response.results
    }


def assigned_directories(host: VirtualHost) -> dict[int, bytes]:
    """The directory id of each partition of `demo` in the image."""
    image = host.node.image
    topic_id = image.topic_ids["demo"]
    return {
        index: image.partitions[topic_id, index].directory(1)
        for index in range(image.topics[topic_id].partition_count)
    }


def settle_with_time(host: VirtualHost) -> None:
    for _ in range(20):
        host.pass_time(100)
        host.settle()


def test_new_logs_go_to_the_directory_with_the_fewest_logs() -> None:
    host = start()
    create_topics(host, {"demo": 9})
    paths = sorted(paths_of_logs(host).values())
    assert paths == sorted(PATHS * 3)
    assert {
        path: len(partitions) for path, (_, partitions) in described_directories(host).items()
    } == dict.fromkeys(PATHS, 3)


def test_deleted_logs_leave_room_in_their_directory() -> None:
    host = start()
    create_topics(host, {"demo": 4, "other": 2})
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, DELETION)
    create_topics(host, {"demo": 4})
    counts = [list(paths_of_logs(host).values()).count(path) for path in PATHS]
    assert counts == [2, 2, 2]


def test_v18_the_controller_learns_the_directory_of_each_replica() -> None:
    host = start()
    create_topics(host, {"demo": 6})
    settle_with_time(host)
    expected = {log[1]: directory_id_of(1, path) for log, path in paths_of_logs(host).items()}
    assert assigned_directories(host) == expected


def test_a_broker_with_one_directory_assigns_nothing() -> None:
    """The controller assigns the only directory of a broker by itself."""
    host = start(directories=("data",))
    create_topics(host, {"demo": 3})
    before = host.node.quorum.applied
    settle_with_time(host)
    assert set(assigned_directories(host).values()) == {directory_id_of(1)}
    assert host.node.quorum.applied == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_logs_are_found_in_their_directories_after_a_restart(is_clean: bool) -> None:
    first = start()
    create_topics(first, {"demo": 6})
    assert [append(first, index) for index in range(6)] == [0] * 6
    make_folders(first)
    before = paths_of_logs(first)
    if is_clean:
        first.runner.close()
    else:
        first.files.kill()
    host = start(first.files)
    assert paths_of_logs(host) == before
    for index in range(6):
        request = fetch(0)
        request.topics[0].partitions[0].partition = index
        assert (
            fetched_partition(FrameClient(host).ask(ApiKey.FETCH, 12, request)).high_watermark == 1
        )


def elect(host: VirtualHost, index: int) -> None:
    """Have an unclean leader elected."""
    topics = [TopicPartitions(topic="demo", partitions=[index])]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics)
    response = ask_settled(host, ApiKey.ELECT_LEADERS, 2, request)
    assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    settle_with_time(host)


def fail(host: VirtualHost, path: str) -> None:
    """Make the disk of a directory fail at the write of a record."""
    index = next(log[1] for log, directory in paths_of_logs(host).items() if directory == path)
    host.files.faults.append(Fault("pwritev", path=f"{path}/"))
    assert append(host, index) == ErrorCode.KAFKA_STORAGE_ERROR
    host.settle()


def test_v18_a_failed_directory_takes_its_replicas_offline_and_no_others() -> None:
    """C215."""
    host = start()
    create_topics(host, {"demo": 6})
    before = paths_of_logs(host)
    assert [append(host, index) for index in range(6)] == [0] * 6
    fail(host, "c")
    for (_, index), path in before.items():
        assert (append(host, index) == 0) == (path != "c")
    assert [line for line in host.log_lines if line.startswith("c: offline until")]
    assert {path: code for path, (code, _) in described_directories(host).items()} == {
        "data": 0,
        "b": 0,
        "c": ErrorCode.KAFKA_STORAGE_ERROR,
    }


def test_v18_replicas_of_a_failed_directory_lose_their_leader() -> None:
    """A heartbeat names the failed directory; no other broker has these replicas."""
    host = start()
    create_topics(host, {"demo": 6})
    settle_with_time(host)
    before = paths_of_logs(host)
    fail(host, "c")
    settle_with_time(host)
    image = host.node.image
    topic_id = image.topic_ids["demo"]
    leaders = {index: image.partitions[topic_id, index].leader for index in range(6)}
    assert leaders == {log[1]: -1 if path == "c" else 1 for log, path in before.items()}
    assert image.brokers[1].directories == (directory_id_of(1), directory_id_of(1, "b"))


def test_many_logs_of_a_failed_directory_are_reported_in_slices() -> None:
    host = start(directories=("data", "b"))
    count = 4 * FAILED_PER_TURN
    create_topics(host, {"demo": count})
    index = next(log[1] for log, directory in paths_of_logs(host).items() if directory == "b")
    host.files.faults.append(Fault("pwritev", path="b/"))
    FrameClient(host).send(ApiKey.PRODUCE, 9, produce(batch(b"x"), index=index))
    online = [count]
    while host.node.has_work or host.runner.has_work or online[-1] == count:
        host.one_turn()
        online.append(
            sum(partition.is_open for partition in host.node.replica_manager.partitions.values())
        )
        assert online[-2] - online[-1] <= FAILED_PER_TURN + 1
    assert online[-1] == count // 2


def test_new_logs_avoid_a_failed_directory() -> None:
    host = start()
    create_topics(host, {"demo": 3})
    fail(host, "b")
    create_topics(host, {"more": 4})
    assert {path for log, path in paths_of_logs(host).items() if log[0] == "more"} == {"data", "c"}


def test_v18_replicas_in_a_directory_lost_at_the_start_stay_offline() -> None:
    """C216: they are not created in another directory, as their disk may come back."""
    first = start()
    create_topics(first, {"demo": 6})
    settle_with_time(first)
    assert [append(first, index) for index in range(6)] == [0] * 6
    make_folders(first)
    before = paths_of_logs(first)
    first.runner.close()
    host = start(first.files, directories=("data", "b"), lost=("c",), settled=False)
    settle_with_time(host)
    for (_, index), path in before.items():
        assert (append(host, index) == 0) == (path != "c")
    assert [line for line in host.log_lines if line.endswith("offline, one of c")]
    assert not [
        name for path in ("data", "b") for name in host.files.list(path) if "-delete" in name
    ]
    assert len(paths_of_logs(host)) == 4


def test_v19_replicas_of_an_unconfigured_directory_wait_for_an_election() -> None:
    """V21: they lead again if it is in log.dirs again, or empty after an unclean election."""
    first = start()
    create_topics(first, {"demo": 6})
    settle_with_time(first)
    make_folders(first)
    first.runner.close()
    host = start(first.files, directories=("data", "b"), settled=False)
    settle_with_time(host)
    away = {index for index, at in assigned_directories(host).items() if at == C}
    not_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [append(host, index) for index in range(6)] == [
        not_leader if index in away else 0 for index in range(6)
    ]
    [line] = [line for line in host.log_lines if "not one of this broker's" in line]
    assert line.startswith("demo-")
    elected = min(away)
    elect(host, elected)
    assert append(host, elected) == 0
    host.runner.close()
    host = start(first.files, settled=False)
    settle_with_time(host)
    assert [append(host, index) for index in range(6)] == [0] * 6


@pytest.mark.parametrize("lost", [(), ("c",)], ids=["removed", "offline"])
def test_v19_log_of_unknown_directory_does_not_begin_in_another_one(
    lost: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """V21: the broker was killed before it had reported where the logs are."""
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryAssignments, "deadline", lambda _: None)
        first = start()
        create_topics(first, {"demo": 6})
        assert [append(first, index) for index in range(6)] == [0] * 6
        assert {*assigned_directories(first).values()} == {DirectoryId.UNASSIGNED}
    before = paths_of_logs(first)
    first.files.kill()
    for _ in range(2):  # restarts do not make the loss forgotten
        host = start(first.files, directories=("data", "b"), lost=lost, settled=False)
        settle_with_time(host)
        for (_, index), path in before.items():
            assert (append(host, index) == 0) == (path != "c")
        host.files.kill()
    host = start(first.files, settled=False)
    settle_with_time(host)
    leads = [append(host, index) == 0 for index in range(6)]
    assert leads == [path != "c" or bool(lost) for (_, index), path in sorted(before.items())]


@pytest.mark.parametrize("assigned", [None, "b"], ids=["unknown", "elsewhere"])
def test_v19_lost_log_begins_again_where_its_loss_is_known(
    assigned: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata does not name the directory yet, or another one: a move was not finished."""
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryAssignments, "deadline", lambda _: None)
        first = start()
        create_topics(first, {"demo": 3})
        assert [append(first, index) for index in range(3)] == [0] * 3
    if assigned is not None:
        for index in range(3):
            key = first.node.image.topic_ids["demo"], index
            directory = directory_id_of(1, assigned)
            first.node.replica_manager.directory_assignments.assign(key, directory)
        settle_with_time(first)
        assert {*assigned_directories(first).values()} == {directory_id_of(1, assigned)}
    before = paths_of_logs(first)
    first.files.kill()
    for (topic, index), path in before.items():
        folder = f"{path}/{topic}-{index}"
        for name in first.files.list(folder):
            first.files.unlink(f"{folder}/{name}")
        first.files.remove_folder(folder)
    for _ in range(2):
        host = start(first.files, settled=False)
        reports = opened_logs(host, "demo", host.settle)
        assert [report.lacks_records for report in reports] == [True] * 3
        assert paths_of_logs(host) == before
        host.files.kill()


def host_without_c(*, is_lost: bool) -> tuple[VirtualHost, int]:
    """A node that has started without `c`, and a replica in it: one that may lack records."""
    first = start()
    create_topics(first, {"demo": 6})
    settle_with_time(first)
    assert [append(first, index) for index in range(6)] == [0] * 6
    make_folders(first)
    index = min(log[1] for log, path in paths_of_logs(first).items() if path == "c")
    if is_lost:
        key = first.node.image.topic_ids["demo"], index
        first.node.replica_manager.directory_assignments.assign(key, DirectoryId.LOST)
        settle_with_time(first)
    first.files.kill()
    host = start(first.files, directories=("data", "b"), lost=("c",), settled=False)
    settle_with_time(host)
    return host, index


def test_v19_lost_replica_of_an_offline_directory_has_no_second_log() -> None:
    """It would be empty, an election could choose it, and when the disk is back there are two."""
    without_c, index = host_without_c(is_lost=True)
    assert ("demo", index) not in paths_of_logs(without_c)
    assert assigned_directories(without_c)[index] == DirectoryId.LOST
    without_c.files.kill()
    host = start(without_c.files, settled=False)
    settle_with_time(host)
    assert paths_of_logs(host)["demo", index] == "c"
    assert assigned_directories(host)[index] == DirectoryId.LOST
    elect(host, index)
    assert append(host, index) == 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_v18_unclean_leader_in_an_offline_directory_is_deposed(is_lost: bool) -> None:
    """The election names no directory, so that no heartbeat reports the replica."""
    without_c, index = host_without_c(is_lost=is_lost)
    elect(without_c, index)
    image = without_c.node.image
    partition = image.partitions[image.topic_ids["demo"], index]
    assert (partition.leader, partition.directories) == (-1, (DirectoryId.FAILED,))
    without_c.files.kill()
    host = start(without_c.files, settled=False)
    settle_with_time(host)
    assert append(host, index) == 0


def test_v23_new_log_is_not_deleted_with_the_folders_that_had_its_name() -> None:
    """The power was lost before their partition.metadata was written."""
    first = start()
    create_topics(first, {"demo": 1})
    first.files.kill()
    for path in PATHS:
        first.files.make_folder(f"{path}/demo-0")
    for _ in range(2):
        host = start(first.files, settled=False)
        settle_with_time(host)
        assert append(host, 0) == 0
        assert list(paths_of_logs(host)) == [("demo", 0)]
        host.files.kill()


def test_strays_are_renamed_in_every_directory() -> None:
    first = start()
    create_topics(first, {"demo": 3})
    make_folders(first)
    first.runner.close()
    for path in PATHS:
        first.files.make_folder(f"{path}/gone-{len(path)}{ord(path[0])}")
    host = start(first.files)
    for path in PATHS:
        stray = f"gone-{len(path)}{ord(path[0])}"
        names = host.files.list(path)
        assert stray not in names
        assert [name for name in names if name.startswith(f"{stray}.") and name.endswith("-stray")]
    assert len(paths_of_logs(host)) == 3
