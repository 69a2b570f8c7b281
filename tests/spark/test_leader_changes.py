"""A task continues with the new leader after the old one was killed or has lost its leadership."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import until
from tests.spark.planning import batch_reader, write
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "moved"])
def test_a_task_follows_the_leader(cluster: LocalCluster, is_killed: bool) -> None:
    """Without a kill the former leader still replies, and refuses the fetch."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        client.create_topic("t", partitions=1, replication_factor=3)
        for _ in range(10):
            write(client, "t", 300)  # each is a batch
        (partition,) = client.cluster.topic("t").partitions
        reader = batch_reader(
            cluster.servers, subscribe="t", kafka_max__partition__fetch__bytes=5000
        )
        (task,) = reader.partitions()
        batches = reader.read(task)
        found = offsets(next(batches))
        if is_killed:
            cluster.kill(partition.leader)
        else:
            move_leader(client, "t", partition.leader)
        for batch in batches:
            found += offsets(batch)
    assert found == list(range(3000))


def move_leader(client: Client, topic: str, leader: int) -> None:
    """Let another replica lead partition 0, and wait until it does."""
    others = [node for node in (1, 2, 3) if node != leader]
    client.reassign_partitions({(topic, 0): [*others, leader]})

    def has_moved() -> bool:
        client.elect_preferred_leaders([(topic, 0)])
        return client.describe_topic(topic).partitions[0].leader in others

    until(has_moved, "another replica leads")


def offsets(rows: pa.RecordBatch) -> list[int]:
    found: list[int] = rows.column("offset").to_pylist()
    return found
