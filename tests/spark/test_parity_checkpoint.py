"""Our source continues a checkpoint of Spark's own connector, and the connector one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.spark.positions import flat, topic_ids
from tests.spark.parity import OURS, offsets, stream, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kraftlog import Client


def test_a_stream_changes_its_source_without_loss_or_duplicate(
    spark: SparkSession,
    connector: str,
    client: Client,
    address: str,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    given = {"subscribe": topic, "startingOffsets": "earliest", "rememberTopicIds": "true"}
    write(client, topic, 6, partition=0)
    write(client, topic, 3, partition=1)
    stream(spark, connector, address, tmp_path, **given)

    # As if the connector's query had been killed before Spark recorded the end of its batch.
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    write(client, topic, 4, partition=1)
    query = stream(spark, OURS, address, tmp_path, **given)
    assert offsets(query)[-1][0] == {topic: {"0": 6, "1": 3}}

    write(client, topic, 2, partition=0)
    query = stream(spark, connector, address, tmp_path, **given)
    ((start, end),) = offsets(query)
    assert flat(start) == {(topic, 0): 6, (topic, 1): 7}
    assert list(topic_ids(start)) == [topic], "the connector ignores the topic ids in the offsets"
    assert end == {topic: {"0": 8, "1": 7}}

    rows = spark.read.parquet(str(tmp_path / "rows")).select("partition", "offset").collect()
    assert sorted(tuple(row) for row in rows) == [
        *((0, offset) for offset in range(8)),
        *((1, offset) for offset in range(7)),
    ]
