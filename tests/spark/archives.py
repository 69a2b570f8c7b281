"""Helpers of archive tests: records to archive, runs of the pipeline, the content of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from kraftlog.spark.pipelines.archive import run

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from kraftlog import Client


def produce(client: Client, topic: str, count: int, first: int = 0) -> None:
    """Write `count` records to each of two partitions."""
    with client.producer(compression="lz4") as producer:
        for number in range(first, first + count):
            for partition in (0, 1):
                key = None if number % 3 else f"k{number}"
                headers = [("h", b"1")] if number % 5 == 0 else ()
                text = f"{partition} {number}"
                producer.send(topic, text, key=key, partition=partition, headers=headers)


def make_topic(client: Client, topic: str, count: int) -> str:
    """Create a topic of two partitions with `count` records each; return its name."""
    client.create_topic(topic, partitions=2)
    produce(client, topic, count)
    return topic


def archive(address: str, lake: Path, *arguments: str) -> int:
    """Run the pipeline in this process, with the Spark session that the tests share."""
    return run([*arguments, "--to", str(lake), "-b", address, "--json"])


def rows(lake: Path, topic: str) -> list[dict[str, Any]]:
    path = str(lake / topic)
    if DeltaTable.is_deltatable(path):
        table = pa.table(DeltaTable(path).to_pyarrow_table())
    else:
        # As readers open it who know its directory only.
        table = StaticTable.from_metadata(path).scan().to_arrow()
    in_order: list[dict[str, Any]] = table.sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    ).to_pylist()
    return in_order


def dead_letters(lake: Path) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = pa.table(
        DeltaTable(str(lake / "_dead_letters")).to_pyarrow_table()
    ).to_pylist()
    return letters


def record_positions(lake: Path, topic: str) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in rows(lake, topic)]


def all_positions(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in (0, 1) for offset in range(count)]


def checkpoint(lake: Path, topic: str) -> Path:
    return lake / "_kraftlog" / topic / "checkpoint"


def values(client: Client, topic: str) -> dict[int, list[bytes | None]]:
    """The values of each partition, in order."""
    by_partition: dict[int, list[bytes | None]] = {}
    with client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            by_partition.setdefault(record.partition, []).append(record.value)
    return by_partition
