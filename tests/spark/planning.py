"""Calls the source's readers in this process, in the order in which Spark calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import ReadAllAvailable

from kraftlog.spark.options import source_options
from kraftlog.spark.source import BatchReader, StreamReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import InputPartition

    from kraftlog import Client
    from kraftlog.spark.positions import Nested
    from kraftlog.spark.source import Planner


def stream_reader(address: str, **options: object) -> StreamReader:
    return StreamReader(source_options(_named_options(address, options), is_stream=True))


def batch_reader(address: str, **options: object) -> BatchReader:
    return BatchReader(source_options(_named_options(address, options), is_stream=False))


def _named_options(address: str, options: dict[str, object]) -> dict[str, str]:
    """Options by their names: the argument `kafka_a__b` stands for the option `kafka.a.b`."""
    names = {name: name.replace("kafka_", "kafka.").replace("__", ".") for name in options}
    given = {names[name]: str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": address, **given}


def latest(reader: StreamReader, start: Nested) -> Nested:
    """The end of the next batch, without a limit."""
    return reader.latestOffset(start, ReadAllAvailable())


def read(reader: Planner, tasks: Iterable[InputPartition]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each record of these tasks."""
    return [
        (row["topic"], row["partition"], row["offset"])
        for task in tasks
        for batch in reader.read(task)
        for row in batch.select(["topic", "partition", "offset"]).to_pylist()
    ]


def write(client: Client, topic: str, count: int, partition: int = 0) -> None:
    with client.producer() as producer:
        for number in range(count):
            producer.send(topic, f"value {number}", partition=partition)
