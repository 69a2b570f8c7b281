"""`kraftlog pipeline replay` writes records in order, and continues after an interruption."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from kraftlog import Client
from kraftlog.spark.pipelines import replay
from kraftlog.spark.pipelines.replay import run
from kraftlog.spark.replay.lane import HEADER
from kraftlog.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 50
NOW_US = 1_790_000_000_000_000


def write_table(path: Path, topics: tuple[str, ...] = ("old",), partitions: int = 2) -> str:
    """Write a Delta table, `COUNT` records per partition in reverse order; return its path."""
    rows = [
        {
            "key": None if offset % 3 else b"k",
            "value": None if offset % 7 == 6 else f"{topic} {partition} {offset}".encode(),
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": NOW_US + offset * 1_000_000,
            "timestampType": 0,
            "headers": None if offset % 2 else [{"key": "h", "value": b"1"}],
        }
        for topic in topics
        for offset in reversed(range(COUNT))
        for partition in range(partitions)
    ]
    records = pa.Table.from_pylist(rows, schema=arrow_schema(with_headers=True))
    write_deltalake(str(path), records.slice(0, len(rows) // 2))
    write_deltalake(str(path), records.slice(len(rows) // 2), mode="append")
    return str(path)


def original_offsets(client: Client, topic: str) -> dict[int, list[int]]:
    """The offsets that the records had in the table, by partition and in log order."""
    by_partition: dict[int, list[int]] = {}
    with client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            [position] = [value for name, value in record.headers if name == HEADER]
            by_partition.setdefault(record.partition, []).append(
                json.loads(position or b"")["offset"]
            )
    return by_partition


def test_records_keep_partition_order_and_content(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    path = write_table(tmp_path / "old")

    code = run([path, "--to", topic, "-b", our_node, "--keep-timestamps", "--rate", "20000"])

    assert code == 0
    output = capsys.readouterr().out
    assert f"100 records of {path} are in topic {topic}: 100 written now, 0 were there" in output
    assert original_offsets(our_client, topic) == {0: [*range(COUNT)], 1: [*range(COUNT)]}
    with our_client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            offset = record.offset
            assert record.key == (None if offset % 3 else b"k")
            assert record.value == (
                None if offset % 7 == 6 else f"old {record.partition} {offset}".encode()
            )
            assert record.timestamp_ms == NOW_US // 1000 + offset * 1000
            assert [*record.headers][:-1] == ([] if offset % 2 else [("h", b"1")])


def test_an_interrupted_run_continues_in_each_partition(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    path = write_table(tmp_path / "old")
    arguments = [path, "--to", topic, "-b", our_node]

    assert run([*arguments, "--until", "20"]) == 0
    # The tasks of a job do not end together: one partition is ahead when the run is killed.
    with our_client.producer() as producer:
        for offset in range(20, 30):
            position = json.dumps({"topic": "old", "partition": 1, "offset": offset})
            producer.send(topic, f"old 1 {offset}", partition=1, headers={HEADER: position})
    assert run([*arguments, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert run(arguments) == 0
    assert ": 50 written now, 50 were there already" in capsys.readouterr().out
    assert run(arguments) == 0  # nothing is left to do
    output = capsys.readouterr().out
    assert f"100 records of {path} are in topic {topic}: 0 written now, 100 were there" in output

    assert [(each["partition"], each["next"]) for each in plan["partitions"]] == [(0, 20), (1, 30)]
    assert (plan["records"], plan["already"]) == (50, 50)
    assert original_offsets(our_client, topic) == {0: [*range(COUNT)], 1: [*range(COUNT)]}


def test_records_are_selected_by_time_and_topic(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    path = write_table(tmp_path / "several", topics=("a", "b"), partitions=1)
    arguments = [path, "--to", topic, "-b", our_node]

    assert run(arguments) == 2  # --topic must choose between a and b
    until = "2026-09-21T14:13:25"  # in UTC, five seconds after the first
    assert run([*arguments, "--topic", "b", "--until", until]) == 0
    assert run([*arguments, "--topic", "b", "--until", "3", "--again"]) == 0

    assert original_offsets(our_client, topic) == {0: [0, 1, 2, 3, 4, 0, 1, 2]}
    with our_client.consume(topic, start="beginning", until_end=True) as records:
        assert {(record.value or b"")[:1] for record in records} == {b"b"}


def test_records_are_selected_by_an_expression(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A replay of a part continues on its own, whatever else has been replayed to the topic."""
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    path = write_table(tmp_path / "old", partitions=1)
    arguments = [path, "--to", topic, "-b", our_node]
    some = [*arguments, "--filter", "key IS NOT NULL AND CAST(value AS STRING) LIKE '%5'"]

    assert run([*arguments, "--until", "10"]) == 0
    assert run([*some, "--until", "20"]) == 0
    assert ": 1 written now, 0 were there already" in capsys.readouterr().out
    assert run([*some, "--dry-run"]) == 0
    assert "; --filter, which only Spark can apply, may leave some" in capsys.readouterr().out
    assert run(some) == 0
    assert ": 1 written now, 1 were there already" in capsys.readouterr().out
    assert run([*arguments, "--until", "12"]) == 0

    assert original_offsets(our_client, topic) == {0: [*range(10), 15, 45, 10, 11]}
    for expression, reason in (
        ("key ==", "[PARSE_SYNTAX_ERROR]"),
        ("nothing = 1", "[UNRESOLVED_COLUMN"),
        ("offset", "[DATATYPE_MISMATCH"),
        ("rand() < 0.5", "may not depend on chance"),
    ):
        assert run([*arguments, "--filter", expression]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert reason in error


def test_records_keep_timestamps_that_are_no_time(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """-1 is a record without one; a time that a timestamp can't hold has a column of its own."""
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    columns = {"partition": pa.array([0] * 3, pa.int32()), "offset": range(3), "value": [b"v"] * 3}
    times = pa.array([-1000, NOW_US, None], pa.timestamp("us", tz="UTC"))
    exact = pa.array([None, None, -(2**55)], pa.int64())
    rows = pa.table({**columns, "timestamp": times, "timestampOutOfRangeMs": exact})
    write_deltalake(str(tmp_path / "old"), rows)

    assert run([str(tmp_path / "old"), "--to", topic, "-b", our_node, "--keep-timestamps"]) == 0

    with our_client.consume(topic, start="beginning", until_end=True) as records:
        assert [record.timestamp_ms for record in records] == [-1, NOW_US // 1000, -(2**55)]


def test_records_are_written_at_their_pace(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The time of 50 seconds passes in the pauses alone; the records of 16 are due together."""
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    path = write_table(tmp_path / "old")
    now_ns, pauses = [0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now_ns[0] += round(seconds * 1e9)

    clock = SimpleNamespace(monotonic_ns=lambda: now_ns[0], sleep=sleep)
    monkeypatch.setattr(replay, "time", clock)

    assert run([path, "--to", topic, "-b", our_node, "--pace", "8", "--json"]) == 0

    progress = map(json.loads, capsys.readouterr().out.splitlines())
    shown = [event["records"] for event in progress if event["event"] == "progress"]
    assert original_offsets(our_client, topic) == {0: [*range(COUNT)], 1: [*range(COUNT)]}
    assert sum(pauses) == 6
    assert shown == [32, 64, 96, 100]


def test_tables_that_cannot_be_replayed_are_refused(
    spark: SparkSession,
    our_client: Client,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    path = write_table(tmp_path / "old")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"value": ["v"]}), other)

    def refused(*arguments: str) -> str:
        assert run([*arguments, "--to", topic, "-b", our_node]) in {1, 2}
        return capsys.readouterr().err

    assert "has 1 partitions, and the table has records of partition 1" in refused(path)
    assert "has no column partition and offset; its columns are value" in refused(str(other))
    assert "does not exist: expected a Delta or Iceberg table" in refused(str(tmp_path / "none"))
    assert "--rate 0.0: expected more than 0" in refused(path, "--rate", "0")
    assert "--pace -1.0: expected more than 0" in refused(path, "--pace", "-1")
    assert "--from noon: expected an offset, or a time" in refused(path, "--from", "noon")
    assert original_offsets(our_client, topic) == {}
