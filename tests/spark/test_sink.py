"""The sink `kraftlog` in Spark: rows of batches and streams, repeated batches, errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def _rows(spark: SparkSession, address: str, topic: str) -> DataFrame:
    return (
        spark.read.format("kraftlog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )


def test_a_batch_writes_every_row_once(
    spark: SparkSession, client: Client, address: str, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)
    rows = spark.range(0, 3000, 1, 2).selectExpr(
        "cast(id as string) key",
        "cast(concat('value ', id) as binary) value",
        "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))) headers",
        "timestamp_millis(1790000000000 + id) timestamp",
    )

    rows.write.format("kraftlog").mode("append").options(
        **{"kafka.bootstrap.servers": address, "topic": topic, "kafka.compression.type": "lz4"}
    ).save()

    with client.consume(topic, start="beginning", until_end=True) as records:
        by_number = {int(record.key or b""): record for record in records}
    assert sorted(by_number) == list(range(3000))
    for number in (0, 1, 2999):
        assert by_number[number].value == f"value {number}".encode()
        assert [*by_number[number].headers] == [("h", str(number).encode())]
        assert by_number[number].timestamp_ms == 1790000000000 + number
    offsets = sorted(record.offset for record in by_number.values() if record.partition == 0)
    assert offsets == list(range(len(offsets))), "no record of partition 0 was written twice"


def test_records_of_a_repeated_batch_can_be_dropped_by_their_header(
    spark: SparkSession, our_node: str, named: Callable[[str], str], tmp_path: Path
) -> None:
    address = our_node
    source, sink = named("source"), named("sink")
    with Client(address, timeout_s=LIMIT_S) as client, client.producer() as producer:
        client.create_topic(source, partitions=2)
        client.create_topic(sink, partitions=2)
        for number in range(200):
            producer.send(source, f"{number}", partition=number % 2)

    def run() -> None:
        stream = (
            spark.readStream.format("kraftlog")
            .options(**{"kafka.bootstrap.servers": address, "subscribe": source})
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "100")
            .load()
            .select("value")
        )
        query = (
            stream.writeStream.format("kraftlog")
            .options(**{"kafka.bootstrap.servers": address, "topic": sink, "batchHeader": "true"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    # As after a crash between the end of the last batch and its record in the checkpoint.
    os.remove(tmp_path / "checkpoint" / "commits" / "1")
    os.remove(tmp_path / "checkpoint" / "commits" / ".1.crc")
    run()

    rows = _rows(spark, address, sink).selectExpr(
        "cast(value as string) value",
        "cast(filter(headers, h -> h.key = 'kraftlog.batch')[0].value as string) batch",
    )
    all_values = [row.value for row in rows.collect()]
    distinct_values = [row.value for row in rows.dropDuplicates(["batch"]).collect()]
    assert len(all_values) == 300
    assert sorted(distinct_values, key=int) == [f"{number}" for number in range(200)]


def test_an_invalid_write_is_refused_when_it_is_planned(
    spark: SparkSession, our_node: str, named: Callable[[str], str]
) -> None:
    rows = spark.range(3)
    writer = rows.write.format("kraftlog").option("kafka.bootstrap.servers", our_node)

    with pytest.raises(Exception, match="a column value is required; the columns are id"):
        writer.option("topic", named("t")).mode("append").save()
    with pytest.raises(Exception, match="mode overwrite is not possible"):
        writer.option("topic", named("t")).mode("overwrite").save()
    with pytest.raises(Exception, match="batchHeader is for streams"):
        rows.selectExpr("cast(id as string) value").write.format("kraftlog").options(
            **{"kafka.bootstrap.servers": our_node, "topic": named("t"), "batchHeader": "true"}
        ).mode("append").save()
