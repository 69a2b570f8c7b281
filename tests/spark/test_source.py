"""The source `kraftlog`: rows of a topic in batches and streams, from kraftlog and from Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kraftlog import Client


def test_a_batch_has_every_record_once(
    spark: SparkSession, client: Client, address: str, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)
    with client.producer() as producer:
        for number in range(3000):
            producer.send(topic, f"value {number}", key=f"{number}", partition=number % 3)

    rows = (
        spark.read.format("kraftlog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .load()
        .collect()
    )

    assert sorted((row.partition, row.offset) for row in rows) == [
        (partition, offset) for partition in range(3) for offset in range(1000)
    ]
    assert {bytes(row.value).decode() for row in rows} == {f"value {n}" for n in range(3000)}


def test_an_empty_topic_has_no_rows(
    spark: SparkSession, client: Client, address: str, named: Callable[[str], str]
) -> None:
    client.create_topic(named("t"), partitions=2)
    options = {"kafka.bootstrap.servers": address, "subscribe": named("t")}
    assert spark.read.format("kraftlog").options(**options).load().collect() == []
