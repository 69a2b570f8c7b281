"""`kraftlog pipeline archive --format iceberg`: every record once, and tables that others read."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.errors import ConfigError
from kraftlog.spark.lake.archives import ICEBERG, create_archive, open_archive
from kraftlog.spark.lake.layout import RAW
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.pipelines.archive import run
from kraftlog.spark.pipelines.replay import run as replay
from kraftlog.spark.pipelines.verify import run as verify
from kraftlog.spark.tables import iceberg_table, read_table
from tests.spark.archives import (
    all_positions,
    archive,
    checkpoint,
    make_topic,
    produce,
    record_positions,
    rows,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 100


@pytest.fixture
def topic(our_client: Client, named: Callable[[str], str]) -> str:
    """A topic of two partitions with `COUNT` records each."""
    return make_topic(our_client, named("t"), COUNT)


def version(lake: Path, topic: str) -> int:
    table = open_archive(str(lake), topic)
    assert table is not None
    return table.version


def test_every_record_is_archived_once_as_iceberg(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
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
    produce(our_client, topic, 10, first=COUNT)
    assert archive(our_node, tmp_path, topic, "--max-records-per-batch", "10") == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 10)
    assert verify([str(tmp_path), "-b", our_node]) == 0


@pytest.mark.long
@pytest.mark.slow
def test_after_a_rollback_the_archive_continues_at_the_snapshot(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a new checkpoint; the tables are compared in tasks of Spark."""
    monkeypatch.setattr("kraftlog.spark.lake_check.plan.TASK_RECORDS", 150)
    assert archive(our_node, tmp_path, topic, "--format", "iceberg") == 0
    produce(our_client, topic, 10, first=COUNT)
    assert archive(our_node, tmp_path, topic) == 0
    table = iceberg_table(str(tmp_path / topic))
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert record_positions(tmp_path, topic) == all_positions(COUNT)
    assert verify([str(tmp_path), "-b", our_node]) == 3
    assert archive(our_node, tmp_path, topic) == 3
    shutil.rmtree(checkpoint(tmp_path, topic))
    assert archive(our_node, tmp_path, topic) == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 10)
    assert verify([str(tmp_path), "-b", our_node]) == 0


@pytest.mark.long
def test_decoded_values_dead_letters_and_new_columns(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """By date: as in Delta tables, with a table of dead letters that is Iceberg's, too."""
    name = named("json")
    our_client.create_topic(name, partitions=1)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"n": {"type": "integer"}}}')
    options = ["--decode", "json", "--schema", str(schema), "--partition-by", "date"]
    with our_client.producer() as producer:
        for text in ('{"n": 1}', "no JSON", '{"n": 2}'):
            producer.send(name, text, partition=0)
    lake = tmp_path / "lake"
    assert archive(our_node, lake, name, "--format", "iceberg", *options) == 0
    with our_client.producer() as producer:
        producer.send(name, '{"n": 3, "at": {"x": 1}}', partition=0)
    assert archive(our_node, lake, name, *options, "--on-drift", "add") == 0

    assert [(each["n"], each["at"]) for each in rows(lake, name)] == [
        (1, None),
        (2, None),
        (3, '{"x": 1}'),
    ]
    [letter] = rows(lake, "_dead_letters")
    assert (letter["topic"], letter["offset"], letter["value"]) == (name, 1, b"no JSON")
    assert [each[:5] for each in os.listdir(lake / name) if each != "metadata"] == ["date="]
    assert verify([str(lake), "-b", our_node]) == 0
    iceberg_table(str(lake / "_dead_letters")).delete("offset = 1")
    assert verify([str(lake), "-b", our_node]) == 3
    frame = read_table(spark, str(lake / name))
    assert [row.n for row in frame.orderBy("offset").collect()] == [1, 2, 3]
    assert frame.schema["timestamp"].dataType.typeName() == "timestamp"


@pytest.mark.long
def test_a_table_is_replayed(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    assert archive(our_node, tmp_path, topic, "--format", "iceberg") == 0
    target = named("again")
    our_client.create_topic(target, partitions=2)
    table = str(tmp_path / topic)
    assert replay([table, "--to", target, "-b", our_node, "--keep-timestamps"]) == 0
    assert values(our_client, target) == values(our_client, topic)

    iceberg_table(table).update_schema().rename_column("key", "name").commit()
    with pytest.raises(ConfigError, match="columns were renamed"):
        read_table(spark, table)


@pytest.mark.long
def test_both_formats_have_the_same_digests(
    spark: SparkSession, our_node: str, topic: str, tmp_path: Path
) -> None:
    """The statements of both differ only in the table's id, version and files."""
    statements = []
    for table_format in ("delta", "iceberg"):
        lake, path = tmp_path / table_format, tmp_path / f"{table_format}.json"
        assert archive(our_node, lake, topic, "--format", table_format) == 0
        assert verify([str(lake), "-b", our_node, "--statement", str(path)]) == 0
        [table] = json.loads(path.read_text())["tables"]
        statements.append({key: table[key] for key in ("topic_id", "columns", "partitions")})
    assert statements[0] == statements[1]
    assert [each["records"]["lake"] for each in statements[0]["partitions"]] == [COUNT, COUNT]


def test_what_iceberg_tables_lack_is_refused(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [topic, "--to", str(tmp_path), "-b", our_node]
    assert run([*arguments, "--format", "iceberg", "--retention", "30d"]) == 2
    assert "--retention removes records of Delta tables only" in capsys.readouterr().err
    assert run([*arguments, "--format", "iceberg", "--compact"]) == 2
    assert "--compact merges files of Delta tables only" in capsys.readouterr().err
    create_archive(
        ICEBERG, str(tmp_path), ArchiveState(topic, "", "raw", {0: 0, 1: 0}), RAW, by_date=False
    )
    assert run([*arguments, "--compact"]) == 1
    assert "--compact merges files of Delta tables only" in capsys.readouterr().err
    assert run([*arguments, "--retention", "30d"]) == 1
    assert "--retention removes records of Delta tables only" in capsys.readouterr().err
    assert run([*arguments, "--format", "delta"]) == 3
    assert "is an Iceberg table: leave --format out" in capsys.readouterr().err
