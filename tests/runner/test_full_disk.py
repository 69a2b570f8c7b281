"""A full disk: the metadata log uses the reserve until there is space again."""

from __future__ import annotations

import errno

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.runner.log_lifecycle import FULL_BACKOFF_MS
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.storage.reserve import NAME
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import FrameClient, ask_settled, create_topics
from tests.node.test_log_ends import delete_records, offset_at
from tests.node.test_producers import Writer
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in
from tests.runner.test_recreated_topics import delete_topic
from tests.virtual_host import SETTINGS, VirtualHost

RESERVE_BYTES = 100_000
SETTINGS_WITH_RESERVE = SETTINGS.replace(
    "kraftlog.reserve.bytes=0", f"kraftlog.reserve.bytes={RESERVE_BYTES}"
)
RESERVE = f"data/{NAME}"
FULL = "data: the disk is full"


def node_on(files: MemoryFiles) -> VirtualHost:
    return VirtualHost(files, SETTINGS_WITH_RESERVE)


def full_disk() -> VirtualHost:
    """A node with two topics and some records, on a disk that is full but for the reserve."""
    host = node_on(MemoryFiles())
    create_topics(host, {"demo": 1, "large": 1})
    writer = Writer(host)
    for number in range(9):
        assert writer.write(batch(b"%d" % number))[0] == ErrorCode.NONE
    host.files.capacity_bytes = host.files.used_bytes()
    return host


def create(host: VirtualHost, name: str) -> int:
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    response = ask_settled(host, ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
    return int(response.topics[0].error_code)


def spend_reserve(host: VirtualHost) -> None:
    """Create a topic on the full disk, for which the node uses up its reserve."""
    assert host.files.exists(RESERVE)
    assert create(host, "last") == ErrorCode.NONE
    assert not host.files.exists(RESERVE)
    assert host.log_lines[-1].startswith(FULL)


def test_the_reserve_occupies_disk_space() -> None:
    host = full_disk()
    used = host.files.used_bytes()
    assert Writer(host).write(batch(b"x"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert host.files.exists(RESERVE), "records of topics do not use it"
    host.runner.directory.reserve.spend()
    assert host.files.used_bytes() == used - RESERVE_BYTES


def test_a_full_disk_refuses_topics_and_records_and_serves_the_rest() -> None:
    host = full_disk()
    spend_reserve(host)
    assert create(host, "another") == ErrorCode.KAFKA_STORAGE_ERROR
    more = CreatePartitionsTopic(name="demo", count=2, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
    response = ask_settled(host, ApiKey.CREATE_PARTITIONS, 3, request)
    assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert Writer(host).write(batch(b"x"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(values_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0)))) == 9
    assert delete_records(host, 4) == (ErrorCode.NONE, 4)
    assert offset_at(host, -2)[0] == 4
    delete_topic(host, "large")
    host.settle()
    assert "large-0" not in host.files.list("data")
    assert len([line for line in host.log_lines if line.startswith(FULL)]) == 1


def test_the_reserve_is_refilled_once_there_is_space() -> None:
    host = full_disk()
    spend_reserve(host)
    host.pass_time(FULL_BACKOFF_MS)
    assert not host.files.exists(RESERVE)
    assert create(host, "another") == ErrorCode.KAFKA_STORAGE_ERROR
    assert host.files.capacity_bytes is not None
    host.files.capacity_bytes += RESERVE_BYTES
    host.pass_time(FULL_BACKOFF_MS)
    host.settle()
    assert host.log_lines[-1] == "data: disk space is available again; records are accepted"
    assert host.files.exists(RESERVE)
    assert create(host, "another") == ErrorCode.NONE
    assert Writer(host).write(batch(b"x"))[0] == ErrorCode.NONE


def test_refilling_the_reserve_is_retried() -> None:
    """A process that has run out of file descriptors continues without its reserve."""
    host = full_disk()
    spend_reserve(host)
    assert host.files.capacity_bytes is not None
    host.files.capacity_bytes += RESERVE_BYTES
    host.files.faults.append(Fault("open", errno.EMFILE, NAME))
    host.pass_time(FULL_BACKOFF_MS)
    assert not host.files.exists(RESERVE)
    host.pass_time(FULL_BACKOFF_MS)
    host.settle()
    assert host.files.exists(RESERVE)
    assert host.log_lines[-1] == "data: disk space is available again; records are accepted"


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("is_spent", [True, False], ids=["spent", "whole"])
def test_a_node_restarts_on_a_full_disk(is_clean: bool, is_spent: bool) -> None:
    """A starting node writes its vote, its registration and the rebuilt files of logs."""
    host = full_disk()
    if is_spent:
        spend_reserve(host)
    if is_clean:
        host.runner.close()
    else:
        host.files.kill()
    for _ in range(2):
        host = node_on(host.files)
        assert host.node.is_ready
        assert len(values_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0)))) == 9
        assert create(host, "another") in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE}
        assert create(host, "third") == ErrorCode.KAFKA_STORAGE_ERROR
        host.files.kill()


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("pwritev", "quorum-state"),
        ("pwritev", "__cluster_metadata-0/00"),
        ("pwritev", "leader-epoch-checkpoint"),
        ("pwritev", "log-start-offset-checkpoint"),
        ("rename", "demo-0"),
    ],
)
def test_the_first_write_on_a_full_disk_uses_the_reserve(operation: str, path: str) -> None:
    host = node_on(MemoryFiles())
    create_topics(host, {"demo": 1})
    for number in range(5):
        assert Writer(host).write(batch(b"%d" % number))[0] == ErrorCode.NONE
    host.files.kill()
    host = node_on(host.files)
    host.files.faults.append(Fault(operation, errno.ENOSPC, path))
    if path in {"quorum-state", "leader-epoch-checkpoint"}:  # a starting node writes them
        host.files.kill()
        host = node_on(host.files)
    host.pass_time(INTERVAL_MS)
    assert delete_records(host, 2) == (ErrorCode.NONE, 2)
    assert Writer(host).write(batch(b"x"))[0] in {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
    delete_topic(host)
    host.settle()
    assert "demo-0" not in host.files.list("data")
    assert host.runner.directory.disk.failure is None
    assert host.files.faults[0].times == 0


def test_unwritten_epochs_on_a_full_disk_do_not_take_it_offline() -> None:
    """Without a reserve, the epochs are written once there is space; the response waits for it."""
    host = VirtualHost()
    create_topics(host, {"demo": 1}, {"flush.messages": 1})
    host.files.faults.append(Fault("pwritev", errno.ENOSPC, "demo-0/leader-epoch-checkpoint"))
    writer = Writer(host)
    assert writer.ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), -1)) is None
    assert host.runner.directory.disk.failure is None
    host.pass_time(FULL_BACKOFF_MS)
    host.turn()
    [(_, response)] = writer.take()
    assert produce_result(response).error_code == ErrorCode.NONE


def test_without_a_reserve_a_full_disk_still_ends_the_node() -> None:
    host = VirtualHost()
    host.files.capacity_bytes = host.files.used_bytes()
    with pytest.raises(Exception, match="No space left"):
        create(host, "more")
