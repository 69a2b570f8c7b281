"""V12, V13 with real processes: one replica is paused; all timeouts are longer than the pause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.server import raw
from tests.server.clients import TOPIC
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import NODES, until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Longer than any test.
NEVER_MS = 3_600_000
SETTINGS = (
    f"broker.session.timeout.ms={NEVER_MS}",
    f"replica.lag.time.max.ms={NEVER_MS}",
    f"replica.socket.timeout.ms={NEVER_MS}",
)
#: How many records are produced to a partition while a replica is paused.
COUNT = 5
#: The number of partitions that each leader leads.
PARTITIONS = 10


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    words = [word for setting in SETTINGS for word in ("--override", setting)]
    started = LocalCluster(tmp_path, *words)
    try:
        yield started
    finally:
        started.end()


def log_of(cluster: LocalCluster, node: int) -> bytes:
    """The bytes of the log of partition 0 on a node."""
    paths = Path(cluster.data).glob(f"*{node}*/**/{TOPIC}-0/*.log")
    return b"".join([path.read_bytes() for path in paths])


def fetch_partition(client: raw.RawClient, offset: int, max_wait_ms: int) -> Any:
    """Fetch partition 0 as a consumer; return its response, which must have no error."""
    client.send(raw.fetch(offset, offset, max_wait_ms=max_wait_ms))
    partition = client.message(ApiKey.FETCH).responses[0].partitions[0]
    assert partition.error_code == ErrorCode.NONE
    return partition


def test_v12_consumer_waits_between_high_watermark_and_log_end(cluster: LocalCluster) -> None:
    """The next leader has records that a paused member of the ISR lacks: they are not committed."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        first = client.describe_quorum().leader_id
        leader, paused = [node for node in NODES if node != first]
        client.create_topic(TOPIC, assignment={0: [first, leader, paused]})
        client.produce(TOPIC, b"committed")
        until(lambda: b"committed" in log_of(cluster, paused), "the paused replica has a record")
    cluster.pause(paused)
    servers = ",".join([cluster.address(node) for node in (first, leader)])
    with Client(servers, timeout_s=LIMIT_S) as client:
        with client.producer(acks="1") as producer:
            for _ in range(COUNT):
                producer.send(TOPIC, b"waiting")
        until(
            lambda: log_of(cluster, leader).count(b"waiting") == COUNT,
            "the next leader has all records",
        )
        assert client.reassign_partitions({(TOPIC, 0): [leader, first, paused]}) == {}
        assert client.elect_preferred_leaders([(TOPIC, 0)]) == {}
        until(
            lambda: client.describe_topic(TOPIC).partitions[0].leader == leader,
            "the new leader leads",
        )
        assert {*client.describe_topic(TOPIC).partitions[0].isr} == {*NODES}
    with raw.RawClient(cluster.port(leader)) as consumer:
        for offset in range(1, 1 + COUNT + 1):
            partition = fetch_partition(consumer, offset, max_wait_ms=0)
            assert (partition.high_watermark, bytes(partition.records or b"")) == (1, b"")
        cluster.resume(paused)
        partition = fetch_partition(consumer, COUNT, max_wait_ms=raw.MAX_WAIT_MS)
        assert b"waiting" in bytes(partition.records)


def test_deletion_of_records_times_out_while_a_follower_is_paused(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader keeps its new log start: a second request succeeds once the follower fetches."""
    monkeypatch.setitem(raw.VERSIONS, ApiKey.DELETE_RECORDS, 2)
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        leader = client.describe_quorum().leader_id
        paused = next(node for node in NODES if node != leader)
        client.create_topic(TOPIC, assignment={0: [leader, paused]})
        for _ in range(2):
            client.produce(TOPIC, b"value")

    def delete_records(consumer: raw.RawClient, timeout_ms: int) -> tuple[int, int]:
        part = DeleteRecordsPartition(partition_index=0, offset=1)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[part])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        consumer.send(raw.frame(1, ApiKey.DELETE_RECORDS, request))
        result = consumer.message(ApiKey.DELETE_RECORDS).topics[0].partitions[0]
        return result.error_code, result.low_watermark

    cluster.pause(paused)
    with raw.RawClient(cluster.port(leader)) as consumer:
        assert delete_records(consumer, 1) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        cluster.resume(paused)
        assert delete_records(consumer, LIMIT_S * 1000) == (ErrorCode.NONE, 1)


def test_v13_followers_fetch_from_others_while_a_leader_hangs(cluster: LocalCluster) -> None:
    """A follower sends each leader a fetch of its own, for all partitions of that leader."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        leader = client.describe_quorum().leader_id
        follower, paused = [node for node in NODES if node != leader]
        assignments = ([paused, follower], [leader, follower])
        assignment = {index: assignments[index % 2] for index in range(2 * PARTITIONS)}
        client.create_topic(TOPIC, assignment=assignment, configs={"min.insync.replicas": "2"})
        with client.producer() as producer:
            for index in assignment:
                producer.send(TOPIC, b"before", partition=index)
    cluster.pause(paused)
    servers = ",".join([cluster.address(node) for node in (leader, follower)])
    led_by_running = [index for index in assignment if index % 2]
    with Client(servers, timeout_s=LIMIT_S) as client:
        for number in range(COUNT):
            with client.producer() as producer:
                for index in led_by_running:
                    producer.send(TOPIC, b"%d" % number, partition=index)
            assert {*producer.last_base_offsets.values()} == {1 + number}
        partitions = client.describe_topic(TOPIC).partitions
        assert all({*partitions[index].isr} == {leader, follower} for index in led_by_running)
    cluster.resume(paused)
