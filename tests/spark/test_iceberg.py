"""`kraftlog pipeline archive --format iceberg`: every record once, and tables that others read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table import StaticTable

from kraftlog import Client
from kraftlog.spark.lake.archives import open_archive
from kraftlog.spark.pipelines.verify import run as verify
from tests.spark.archives import all_positions, archive, checkpoint, produce
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

COUNT = 100


@pytest.fixture
def client(our_node: str) -> Iterator[Client]:
    with Client(our_node, timeout_s=LIMIT_S) as connected:
        yield connected


@pytest.fixture
def topic(client: Client, named: Callable[[str], str]) -> str:
    """A topic of two partitions with `COUNT` records each."""
    name = named("t")
    client.create_topic(name, partitions=2)
    produce(client, name, COUNT)
    return name


def rows(lake: Path, topic: str) -> list[dict[str, Any]]:
    """As readers see the table who know its directory only."""
    table = StaticTable.from_metadata(str(lake / topic)).scan().to_arrow()
    found: list[dict[str, Any]] = table.sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    ).to_pylist()
    return found


def positions(lake: Path, topic: str) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in rows(lake, topic)]


def version(lake: Path, topic: str) -> int:
    table = open_archive(str(lake), topic)
    assert table is not None
    return table.version


def test_every_record_is_archived_once_as_iceberg(
    spark: SparkSession, our_node: str, client: Client, topic: str, tmp_path: Path
) -> None:
    """Later runs add new records; a batch that Spark repeats adds nothing."""
    assert archive(our_node, tmp_path, topic, "--format", "iceberg") == 0
    archived = rows(tmp_path, topic)
    assert [(each["partition"], each["offset"]) for each in archived] == all_positions(COUNT)
    assert [each["value"] for each in archived[:3]] == [b"0 0", b"0 1", b"0 2"]
    assert (archived[0]["key"], archived[1]["key"]) == (b"k0", None)
    assert archived[0]["headers"] == [{"key": "h", "value": b"1"}]

    commits = checkpoint(tmp_path, topic) / "commits"
    newest = max(name for name in os.listdir(commits) if name.isdigit())
    for name in (newest, f".{newest}.crc"):
        (commits / name).unlink()
    before = version(tmp_path, topic)
    assert archive(our_node, tmp_path, topic) == 0
    assert version(tmp_path, topic) == before
    produce(client, topic, 10, first=COUNT)
    assert archive(our_node, tmp_path, topic, "--max-records-per-batch", "6") == 0
    assert positions(tmp_path, topic) == all_positions(COUNT + 10)
    assert verify([str(tmp_path), "-b", our_node]) == 0
