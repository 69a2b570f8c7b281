"""V11: the logs of removed partitions are deleted, and partitions added again have new logs.

Topic id and folder are the same, so only the leader epochs tell the logs apart.
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.storage.disk import read_whole, write_whole
from kraftlog.wire.apis import CONTROLLER, FIRST_OWN, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.frame_client import (
    FrameClient,
    create_partitions,
    make_folders,
    make_host,
    remove_partitions,
)
from tests.node.test_log_ends import delete_records
from tests.node.test_requests import batch, fetched_partition, produce, produce_result, values_in
from tests.virtual_host import VirtualHost

REMOVED = "data/demo-1"


def write(host: VirtualHost, value: bytes, index: int = 1) -> int:
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(value), index=index))
    return int(produce_result(answer).error_code)


def read(host: VirtualHost, epoch: int = -1) -> Any:
    part = FetchPartition(
        partition=1, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="demo", partitions=[part])]
    )
    return FrameClient(host).ask(ApiKey.FETCH, 12, request)


def leader_epochs(host: VirtualHost) -> list[int]:
    """The leader epochs of the topic's partitions in Metadata."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="demo")])
    [topic] = FrameClient(host).ask(ApiKey.METADATA, 12, request).topics
    return [partition.leader_epoch for partition in topic.partitions]


def folders(host: VirtualHost) -> list[str]:
    """The topic's folders that are not marked as deleted."""
    names = host.files.list("data")
    return [name for name in names if name.startswith("demo-") and not name.endswith("-delete")]


def files_of_partition(host: VirtualHost) -> dict[str, bytes]:
    """The files of partition 1."""
    return {name: read_whole(host.files, f"{REMOVED}/{name}") for name in host.files.list(REMOVED)}


def restore_files(host: VirtualHost, files: dict[str, bytes]) -> None:
    """Give partition 1 these files, as if the broker had been down since they were written."""
    if host.files.exists(REMOVED):
        for name in host.files.list(REMOVED):
            host.files.unlink(f"{REMOVED}/{name}")
    else:
        host.files.make_folder(REMOVED)
    for name, data in files.items():
        write_whole(host.files, f"{REMOVED}/{name}", data)


def test_v11_clients_notice_a_removed_partition() -> None:
    host = make_host(demo=2)
    make_folders(host)
    assert write(host, b"old") == ErrorCode.NONE
    assert leader_epochs(host) == [0, 0]
    assert remove_partitions(host, "demo", 0) == ErrorCode.INVALID_PARTITIONS
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    assert leader_epochs(host) == [0]
    assert write(host, b"late") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched_partition(read(host)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert folders(host) == ["demo-0"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_v11_a_partition_added_again_is_empty(is_restarted: bool) -> None:
    host = make_host(demo=2)
    make_folders(host)
    assert write(host, b"old") == ErrorCode.NONE
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    if is_restarted:
        host.files.kill()
        host = VirtualHost(host.files)
    create_partitions(host, "demo", 2)
    assert leader_epochs(host)[1] == 1
    assert fetched_partition(read(host, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched_partition(read(host)).error_code == ErrorCode.NONE
    assert values_in(read(host)) == []
    assert write(host, b"new") == ErrorCode.NONE
    for restarts in range(2):
        if restarts:
            host.files.kill()
            host = VirtualHost(host.files)
        assert values_in(read(host)) == [b"new"]
    assert host.log_lines == []


def test_v11_a_broker_that_was_down_deletes_removed_logs() -> None:
    """V4: the deletion reaches a broker that was down at the time."""
    host = make_host(demo=2)
    make_folders(host)
    assert write(host, b"old") == ErrorCode.NONE
    old = files_of_partition(host)
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    host.files.kill()
    restore_files(host, old)
    host = VirtualHost(host.files)
    assert (folders(host), host.log_lines) == (["demo-0"], [])


def test_v11_a_broker_that_was_away_discards_an_older_log() -> None:
    host = make_host(demo=2)
    make_folders(host)
    assert write(host, b"old") == ErrorCode.NONE
    old = files_of_partition(host)
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    create_partitions(host, "demo", 2)
    host.files.kill()
    restore_files(host, old)
    host = VirtualHost(host.files)
    [line] = [line for line in host.log_lines if "removed" in line]
    assert line.startswith(f"{REMOVED}: deleted, ")
    assert fetched_partition(read(host)).error_code == ErrorCode.NONE
    assert values_in(read(host)) == []
    assert write(host, b"new") == ErrorCode.NONE
    assert values_in(read(host)) == [b"new"]
    make_folders(host)
    assert folders(host) == ["demo-0", "demo-1"]


@pytest.mark.parametrize("listener", [0, CONTROLLER])
def test_kraftlogs_own_apis_are_advertised_to_its_own_client_only(listener: int) -> None:
    host = make_host()
    client = FrameClient(host, listener) if listener else FrameClient(host)
    for name, are_shown in (("kraftlog", True), ("librdkafka", False)):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        keys = [api.api_key for api in client.ask(ApiKey.API_VERSIONS, 4, request).api_keys]
        assert (max(keys) >= FIRST_OWN) == are_shown


def emptied(host: VirtualHost) -> VirtualHost:
    """The node after a restart, once DeleteRecords and a kill have left no record and no epoch."""
    assert delete_records(host, 2, index=1) == (ErrorCode.NONE, 2)
    host.pass_time(INTERVAL_MS)
    host.settle()
    host.files.kill()
    again = VirtualHost(host.files)
    assert again.runner.logs["demo", 1].epochs.epochs == []
    return again


def test_v23_emptied_log_of_a_removed_partition_is_discarded() -> None:
    """V11: its leader epochs do not tell that it is older, as there are none."""
    host = make_host(demo=2)
    make_folders(host)
    assert write(host, b"a") == write(host, b"b") == ErrorCode.NONE
    host = emptied(host)
    old = files_of_partition(host)
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    create_partitions(host, "demo", 2)
    host.files.kill()
    restore_files(host, old)
    host = VirtualHost(host.files)
    assert [line for line in host.log_lines if line.startswith(f"{REMOVED}: deleted, ")]
    assert host.runner.logs["demo", 1].end_offset == 0


@pytest.mark.parametrize("is_clean", [False, True])
def test_v23_emptied_log_of_a_partition_added_again_is_kept(is_clean: bool) -> None:
    """V11: its folder names the leader epoch that the partition began in."""
    host = make_host(demo=2)
    assert remove_partitions(host, "demo", 1) == ErrorCode.NONE
    create_partitions(host, "demo", 2)
    make_folders(host)
    assert write(host, b"a") == write(host, b"b") == ErrorCode.NONE
    host = emptied(host)
    if is_clean:
        host.runner.close()
    else:
        host.files.kill()
    host = VirtualHost(host.files)
    assert host.log_lines == []
    assert host.runner.logs["demo", 1].end_offset == 2
