"""V18: leaders move from a disk that is full or that hangs, and no acknowledged record is lost.

A follower may lag for an hour here: what is waited for follows from the report of the broker.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.errors import ErrorCode
from tests.server.clients import TOPIC
from tests.server.raw import RawClient, produce
from tests.server.replication_load import (
    NODES,
    PARTITIONS,
    Writer,
    await_isr,
    expect_acknowledged,
    replicated_cluster,
    until,
    write_with_confluent,
)
from tests.server.with_hanging_sync import HANGS
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.local_cluster import LocalCluster

#: The node with the faulty disk. Node 1 is the active controller at first.
NODE = 3
SETTINGS = ("replica.lag.time.max.ms=3600000", "kraftlog.sync.timeout.ms=1000")
RECORD_BYTES = 5_000
#: The size limit of files, larger than that of any file but the logs of the topic.
FILE_BYTES = 300_000
MOVED = "cannot be written at present"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from replicated_cluster(tmp_path, *SETTINGS)


@pytest.fixture
def writer(cluster: LocalCluster) -> Iterator[Writer]:
    started = Writer(write_with_confluent(cluster.servers, RECORD_BYTES))
    try:
        started.await_more()
        yield started
    finally:
        started.stop()


def limit_files(cluster: LocalCluster, *nodes: int) -> None:
    """Set the size limit, which looks like a full disk, once the nodes' logs have reached it."""
    logs = [
        Path(cluster.data, f"node-{n}", f"{TOPIC}-{i}") for n in nodes for i in range(PARTITIONS)
    ]
    until(
        lambda: all(sum(f.stat().st_size for f in log.glob("*.log")) > FILE_BYTES for log in logs),
        "the logs are large",
    )
    for node in nodes:
        _, hard = resource.prlimit(cluster.pid(node), resource.RLIMIT_FSIZE)
        resource.prlimit(cluster.pid(node), resource.RLIMIT_FSIZE, (FILE_BYTES, hard))


def lift_limit(cluster: LocalCluster, *nodes: int) -> None:
    for node in nodes:
        _, hard = resource.prlimit(cluster.pid(node), resource.RLIMIT_FSIZE)
        resource.prlimit(cluster.pid(node), resource.RLIMIT_FSIZE, (hard, hard))


def led_by(cluster: LocalCluster, node: int) -> list[int]:
    """The partitions that a node leads, as node 1 reports them."""
    with Client(cluster.address(1), timeout_s=LIMIT_S) as client:
        partitions = client.describe_topic(TOPIC).partitions
    return [each.index for each in partitions if each.leader == node]


def elect_preferred(cluster: LocalCluster, *indexes: int) -> set[int]:
    """Elect the preferred leaders; return the error codes."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        errors = client.elect_preferred_leaders([(TOPIC, index) for index in indexes])
    return {error.code for error in errors.values()}


def expect_return_of_leaders(cluster: LocalCluster, writer: Writer, indexes: list[int]) -> None:
    """The node's replicas return to the ISR, and it can lead again."""
    await_isr(cluster, *NODES)
    cluster.await_line("can be written again")
    until(lambda: not elect_preferred(cluster, *indexes), "the preferred leaders are elected")
    until(lambda: led_by(cluster, NODE) == indexes, "the node leads again")
    writer.await_more()
    writer.stop()
    expect_acknowledged(cluster, writer)


def await_isr_without_node(cluster: LocalCluster) -> None:
    await_isr(cluster, *[node for node in NODES if node != NODE])


@pytest.mark.long
def test_v18_leaders_move_from_a_full_disk_and_return(
    cluster: LocalCluster, writer: Writer
) -> None:
    indexes = led_by(cluster, NODE)
    assert indexes
    limit_files(cluster, NODE)
    until(lambda: led_by(cluster, NODE) == [], "the leaders have moved")
    await_isr_without_node(cluster)
    writer.await_more()
    assert elect_preferred(cluster, *indexes) == {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert cluster.output().count(MOVED) == 1
    lift_limit(cluster, NODE)
    expect_return_of_leaders(cluster, writer, indexes)


def code_of_leader(cluster: LocalCluster, client: Client) -> int:
    """The error code for a record that is sent to the leader of partition 0."""
    leader = client.describe_topic(TOPIC).partitions[0].leader
    with RawClient(cluster.port(leader)) as client_of_leader:
        client_of_leader.send(produce(1, b"x"))
        outcome = client_of_leader.next_produce_response()
    assert outcome is not None
    return int(outcome[1])


def test_v18_readers_go_on_while_all_disks_are_full(cluster: LocalCluster, writer: Writer) -> None:
    """Producers get KAFKA_STORAGE_ERROR; their records are accepted once there is space again."""
    limit_files(cluster, *NODES)
    until(lambda: cluster.output().count(MOVED) >= len(NODES), "all nodes report their disks")
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        with client.consume(TOPIC, "beginning", until_end=True) as records:
            numbers = {int(record.value or b"") for record in records}
        assert writer.acknowledged.keys() <= numbers
        # The leader may just be moving.
        until(lambda: code_of_leader(cluster, client) == ErrorCode.KAFKA_STORAGE_ERROR, "refusal")
    lift_limit(cluster, *NODES)
    writer.await_more()
    await_isr(cluster, *NODES)
    writer.stop()
    expect_acknowledged(cluster, writer)


def test_v18_leaders_move_from_a_hanging_disk_and_return(
    cluster: LocalCluster, writer: Writer, tmp_path: Path
) -> None:
    """With flush.messages=1: a leader acknowledges nothing while its sync does not return."""
    hangs = tmp_path / "hangs"
    indexes = led_by(cluster, NODE)
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        client.alter_configs("topics", TOPIC, {"flush.messages": "1"})
    cluster.kill(NODE)
    cluster.restart(NODE, "tests.server.with_hanging_sync", **{HANGS: str(hangs)})
    await_isr(cluster, *NODES)
    until(lambda: not elect_preferred(cluster, *indexes), "the preferred leaders are elected")
    writer.await_more()
    hangs.touch()
    until(lambda: led_by(cluster, NODE) == [], "the leaders have moved")
    await_isr_without_node(cluster)
    writer.await_more()
    hangs.unlink()
    expect_return_of_leaders(cluster, writer, indexes)
