"""A stream of Spark from topic to topic, while brokers are killed and leadership moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.server.clients import TOPIC
from tests.server.replication_load import (
    ACKNOWLEDGEMENTS,
    NODES,
    PARTITIONS,
    Writer,
    await_isr,
    expect_acknowledged,
    replicated_cluster,
    until,
    write_with_confluent,
)
from tests.spark.archives import values
from tests.spark.test_leader_changes import move_leader
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.server.local_cluster import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.slow]
COPY = "copy"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from replicated_cluster(tmp_path)


def test_a_stream_outlives_kills_and_moves_of_leaders(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """The copy has every record once and in order, as no task is repeated."""
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        client.create_topic(COPY, PARTITIONS, replication_factor=3)
        query = start_copy(spark, cluster.servers, tmp_path)
        writer = Writer(write_with_confluent(cluster.servers))
        try:
            await_copied(client, query, ACKNOWLEDGEMENTS)
            for topic in (TOPIC, COPY):
                killed = leader(client, topic)
                cluster.kill(killed)
                await_copied(client, query, count_copied(client) + ACKNOWLEDGEMENTS)
                cluster.restart(killed)
                await_isr(cluster, *NODES)
                move_leader(client, topic, leader(client, topic))
                await_copied(client, query, count_copied(client) + ACKNOWLEDGEMENTS)
        finally:
            writer.stop()
        expect_acknowledged(cluster, writer)
        await_copied(client, query, len(writer.acknowledged))
        query.stop()
        assert query.exception() is None
        assert values(client, COPY) == values(client, TOPIC)
        headers = batch_headers(client)
        assert len(set(headers)) == len(headers)


def start_copy(spark: SparkSession, servers: str, folder: Path) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": servers}
    return (
        spark.readStream.format("kraftlog")
        .options(**options, subscribe=TOPIC, startingOffsets="earliest")
        .load()
        .select("value", "partition")
        .writeStream.format("kraftlog")
        .options(**options, topic=COPY, batchHeader="true")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def count_copied(client: Client) -> int:
    """The number of records in the copy, which has no gaps."""
    return sum(each.offset for each in client.offsets(COPY).values())


def await_copied(client: Client, query: StreamingQuery, count: int) -> None:
    until(
        lambda: count_copied(client) >= count or query.exception(), f"{count} records in the copy"
    )
    assert query.exception() is None


def leader(client: Client, topic: str) -> int:
    return client.describe_topic(topic).partitions[0].leader


def batch_headers(client: Client) -> list[bytes | None]:
    """The header `kraftlog.batch` of each record of the copy."""
    with client.consume(COPY, start="beginning", until_end=True) as records:
        return [dict(record.headers)["kraftlog.batch"] for record in records]
