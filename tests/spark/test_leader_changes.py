"""A task goes on with the new leader when the broker that it reads from is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog import Client
from tests.patience import LIMIT_S
from tests.server.local_cluster import LocalCluster
from tests.spark.planning import batch_reader, write

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def test_a_task_follows_the_leader(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    try:
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
        cluster.kill(partition.leader)
        for each in batches:
            found += offsets(each)
    finally:
        cluster.end()
    assert found == list(range(3000))


def offsets(rows: pa.RecordBatch) -> list[int]:
    found: list[int] = rows.column("offset").to_pylist()
    return found
