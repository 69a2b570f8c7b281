"""`kraftlog pipeline archive`: every record once, despite repeated batches, loss and recreation."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kraftlog import Client
from kraftlog.spark.lake.compaction import compact
from kraftlog.spark.lake.decode import Decoding
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.layout import RAW
from kraftlog.spark.lake.ranges import RangeArchiver
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.lake.topic_archive import TopicArchive
from kraftlog.spark.pipelines.progress import Progress
from kraftlog.spark.pipelines.verify import run as verify
from kraftlog.spark.ranges import OffsetRange
from kraftlog.types import uuid_text
from tests.spark.archives import (
    all_positions,
    archive,
    checkpoint,
    dead_letters,
    make_topic,
    produce,
    record_positions,
    rows,
)
from tests.spark.test_decode import AVRO, ORDER, framed_avro

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

COUNT = 100


@pytest.fixture
def topic(our_client: Client, named: Callable[[str], str]) -> str:
    """A topic of two partitions with `COUNT` records each."""
    return make_topic(our_client, named("t"), COUNT)


def test_every_record_is_archived_once_and_later_runs_add_new_ones(
    spark: SparkSession, our_node: str, our_client: Client, topic: str, tmp_path: Path
) -> None:
    assert archive(our_node, tmp_path, topic) == 0
    archived = rows(tmp_path, topic)
    assert [(each["partition"], each["offset"]) for each in archived] == all_positions(COUNT)
    assert [each["value"] for each in archived[:3]] == [b"0 0", b"0 1", b"0 2"]
    assert (archived[0]["key"], archived[1]["key"]) == (b"k0", None)
    assert archived[0]["headers"] == [{"key": "h", "value": b"1"}]

    assert archive(our_node, tmp_path, topic) == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT)
    produce(our_client, topic, 10, first=COUNT)
    assert archive(our_node, tmp_path, topic) == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 10)
    committed = our_client.committed(f"kraftlog-archive-{topic}")
    assert {partition: each.offset for (_, partition), each in committed.items()} == dict.fromkeys(
        (0, 1), COUNT + 10
    )
    assert verify([str(tmp_path), "-b", our_node]) == 0


def test_rates_are_counted_from_the_start_of_the_first_batch(
    spark: SparkSession,
    our_node: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    for owner, name in ((TopicArchive, "_process_batch"), (Progress, "begin")):
        call = getattr(owner, name)

        def record_call(*arguments: Any, call: Any = call) -> Any:
            calls.append(call.__name__)
            return call(*arguments)

        monkeypatch.setattr(owner, name, record_call)
    assert archive(our_node, tmp_path, topic, "--max-records-per-batch", str(COUNT)) == 0
    assert calls == ["_process_batch", "begin", "_process_batch"]


def test_a_batch_that_spark_repeats_adds_nothing(
    spark: SparkSession, our_node: str, our_client: Client, topic: str, tmp_path: Path
) -> None:
    """As after a kill between the commit of the table and that of the checkpoint."""
    assert archive(our_node, tmp_path, topic) == 0
    commits = checkpoint(tmp_path, topic) / "commits"
    newest = max(name for name in os.listdir(commits) if name.isdigit())
    for name in (newest, f".{newest}.crc"):
        (commits / name).unlink()
    version = DeltaTable(str(tmp_path / topic)).version()
    assert archive(our_node, tmp_path, topic) == 0
    assert DeltaTable(str(tmp_path / topic)).version() == version
    produce(our_client, topic, 1, first=COUNT)
    assert archive(our_node, tmp_path, topic) == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 1)


def test_without_its_checkpoint_an_archive_continues_from_its_table(
    spark: SparkSession, our_node: str, our_client: Client, topic: str, tmp_path: Path
) -> None:
    assert archive(our_node, tmp_path, topic) == 0
    shutil.rmtree(checkpoint(tmp_path, topic))
    produce(our_client, topic, 5, first=COUNT)
    assert archive(our_node, tmp_path, topic) == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 5)


def test_a_recreated_topic_is_refused(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert archive(our_node, tmp_path, topic) == 0
    our_client.delete_topic(topic)
    our_client.create_topic(topic, partitions=2)
    produce(our_client, topic, 2 * COUNT)
    assert archive(our_node, tmp_path, topic) == 3
    assert f"topic {topic} was deleted and created again" in capsys.readouterr().err
    assert record_positions(tmp_path, topic) == all_positions(COUNT)


def test_a_topic_recreated_during_an_archive_is_refused(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is recreated between two batches, and has records at the next offsets."""
    commit = DeltaArchive.commit

    def commit_and_recreate(*arguments: Any) -> None:
        commit(*arguments)
        our_client.delete_topic(topic)
        our_client.create_topic(topic, partitions=2)
        produce(our_client, topic, COUNT)

    monkeypatch.setattr(DeltaArchive, "commit", commit_and_recreate)
    assert archive(our_node, tmp_path, topic, "--max-records-per-batch", str(COUNT)) == 3
    assert f"topic {topic} was deleted and created again" in capsys.readouterr().err
    assert record_positions(tmp_path, topic) == all_positions(COUNT // 2)


def test_a_task_never_reads_another_topic_with_the_same_name(
    our_node: str, our_client: Client, topic: str, tmp_path: Path
) -> None:
    """The task compares the topic's id with the one in the table."""
    table = DeltaArchive.create(str(tmp_path), empty_state(our_client, topic), RAW, by_date=False)
    our_client.delete_topic(topic)
    our_client.create_topic(topic, partitions=2)
    produce(our_client, topic, COUNT)
    archiver = RangeArchiver(
        our_client.cluster,
        OffsetRange(topic, 0, 0, COUNT),
        str(tmp_path),
        Decoding("raw").__dict__,
        isolation_level=0,
        may_lose=False,
    )
    outcome = archiver.run()
    assert f"topic {topic} was deleted and created again" in outcome.refused
    assert (outcome.rows, outcome.files) == (0, [])
    assert os.listdir(table.path) == ["_delta_log"]


def empty_state(client: Client, topic: str) -> ArchiveState:
    """The state of an archive table without records."""
    topic_id = uuid_text(client.cluster.topic(topic).id)
    return ArchiveState(topic=topic, topic_id=topic_id, decode="raw", offsets={0: 0, 1: 0})


def test_deleted_records_are_skipped_only_if_that_is_allowed(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert archive(our_node, tmp_path, topic) == 0
    produce(our_client, topic, 10, first=COUNT)
    our_client.delete_records({(topic, 0): COUNT + 4})
    assert archive(our_node, tmp_path, topic) == 3
    assert f"offsets {COUNT} to {COUNT + 3} were deleted from the log" in capsys.readouterr().err
    assert archive(our_node, tmp_path, topic, "--allow-data-loss") == 0
    assert len(record_positions(tmp_path, topic)) == 2 * COUNT + 6 + 10


def test_values_that_do_not_fit_the_schema_become_dead_letters(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    tmp_path: Path,
    named: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = named("json")
    our_client.create_topic(name)
    with our_client.producer() as producer:
        for number in range(20):
            good = json.dumps({"id": number, "name": f"n{number}", "offset": -number})
            producer.send(name, good if number != 7 else '{"id": "seven"}', key="k")
        producer.send(name, "not json")
    schema = tmp_path / "schema.json"
    schema.write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "name": {"type": "string"},
                    "offset": {"type": "integer"},
                },
                "required": ["id"],
            }
        )
    )
    lake = tmp_path / "lake"
    decode = ("--decode", "json", "--schema", str(schema))
    assert archive(our_node, lake, name, *decode) == 0
    archived = rows(lake, name)
    assert [each["offset"] for each in archived] == [n for n in range(20) if n != 7]
    assert (archived[3]["id"], archived[3]["name"], archived[3]["value_offset"]) == (3, "n3", -3)
    dead = dead_letters(lake)
    assert [(each["offset"], each["value"]) for each in dead] == [
        (7, b'{"id": "seven"}'),
        (20, b"not json"),
    ]
    assert all(each["reason"] and each["topic"] == name for each in dead)
    table = DeltaTable(str(lake / name))
    assert len(pa.table(table.to_pyarrow_table(filters=[("name", "=", "n3")]))) == 1
    assert verify([str(lake), "-b", our_node]) == 0
    assert "2 dead letters" in capsys.readouterr().out


def test_small_files_are_merged_into_one_for_each_partition(
    spark: SparkSession, our_node: str, our_client: Client, topic: str, tmp_path: Path
) -> None:
    assert archive(our_node, tmp_path, topic, "--max-records-per-batch", "50") == 0
    before = rows(tmp_path, topic)
    table = DeltaArchive.open(str(tmp_path), topic)
    assert table is not None
    replaced, written = compact(table)
    assert (replaced > 2, written) == (True, 2)
    assert rows(tmp_path, topic) == before
    assert verify([str(tmp_path), "-b", our_node]) == 0
    produce(our_client, topic, 1, first=COUNT)
    assert archive(our_node, tmp_path, topic, "--compact") == 0
    assert record_positions(tmp_path, topic) == all_positions(COUNT + 1)


def test_a_column_gets_the_new_fields_of_its_objects(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Older rows have null in them; a later run may have a schema without them."""
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    schema = tmp_path / "schema.json"
    at = {"type": "object", "properties": {"x": {"type": "integer"}}}
    schema.write_text(json.dumps({"type": "object", "properties": {"at": at}}))
    lake = tmp_path / "lake"
    decode = ("--decode", "json", "--schema", str(schema))
    for value, rule in (({"x": 1}, "fail"), ({"x": 2, "y": {"z": 3}}, "add"), ({"y": []}, "fail")):
        our_client.produce(topic, json.dumps({"at": value}).encode())
        arguments = (*decode, "--on-drift", rule, "--compact")
        assert archive(our_node, lake, topic, *arguments) == 0
    assert [each["at"] for each in rows(lake, topic)] == [
        {"x": 1, "y": None},
        {"x": 2, "y": '{"z": 3}'},
        {"x": None, "y": "[]"},
    ]
    assert len(DeltaTable(str(lake / topic)).file_uris()) == 1


def test_avro_of_a_registry_is_archived_batch_by_batch_and_day_by_day(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """The archive starts at the log end, and commits its offsets for the group of --group."""
    topic, group = named("t"), named("g")
    our_client.create_topic(topic, partitions=1)
    produce_avro(our_client, topic, [b"older"] * 5)
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "extra", "type": "int"}]}
    schemas = {1: AVRO, 2: newer}
    for number, schema in schemas.items():
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    lake = tmp_path / "lake"
    options = ["--decode", "avro-confluent", "--registry", str(tmp_path), "--on-drift", "add"]
    options += ["--schema", str(tmp_path / "1.avsc")]
    options += ["--partition-by", "date", "--group", group]
    options += ["--max-records-per-batch", "6", "--until", json.dumps({topic: {"0": 20}})]

    assert archive(our_node, lake, topic, *options, "--from", "latest") == 0
    assert rows(lake, topic) == []
    values = [
        framed_avro(1 + n % 2, schemas[1 + n % 2], {**ORDER, "id": n, "extra": -n})
        for n in range(5, 25)
    ]
    values[3] = b"\0\0\0\0\x09" + values[3][5:]  # offset 8 has an unknown schema id, 9
    produce_avro(our_client, topic, values, first=5)
    assert archive(our_node, lake, topic, *options, "--once") == 0
    assert record_positions(lake, topic) == [(0, offset) for offset in (5, 6, 7, 9, 10)]
    assert our_client.committed(group)[topic, 0].offset == 11
    assert archive(our_node, lake, topic, *options) == 0

    archived = rows(lake, topic)
    assert [each["offset"] for each in archived] == [n for n in range(5, 20) if n != 8]
    assert [each["id"] for each in archived] == [each["offset"] for each in archived]
    assert [each["extra"] for each in archived] == [
        -each["offset"] if each["offset"] % 2 else None for each in archived
    ]
    assert archived[0]["price"] == ORDER["price"]
    [dead] = dead_letters(lake)
    assert (dead["offset"], dead["value"]) == (8, values[3])
    assert our_client.committed(group)[topic, 0].offset == 20
    days = {path.name for path in (lake / topic).iterdir()} - {"_delta_log"}
    assert days == {"date=2026-09-21", "date=2026-09-22"}
    assert {str(each["date"]) for each in archived if each["offset"] < 12} == {"2026-09-21"}
    assert verify([str(lake), "-b", our_node]) == 0


def produce_avro(client: Client, topic: str, values: Sequence[bytes], first: int = 0) -> None:
    """Write values from offset `first` on, two hours apart; the one at offset 12 is at midnight."""
    midnight = 1_790_035_200_000
    with client.producer() as producer:
        for offset, value in enumerate(values, first):
            time_ms = midnight + (offset - 12) * 7_200_000
            producer.send(topic, value, partition=0, timestamp_ms=time_ms)


def test_a_dry_run_writes_nothing(
    spark: SparkSession,
    our_node: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert archive(our_node, tmp_path / "lake", topic, "--dry-run", "--from", "latest") == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])["plan"]
    assert [(each["partition"], each["from"], each["to"]) for each in plan] == [
        (0, COUNT, COUNT),
        (1, COUNT, COUNT),
    ]
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nowhere"], 1, "nowhere"),
        (["t", "--decode", "json"], 2, "--decode json needs --schema FILE"),
        (["t", "--schema", "x"], 2, "--schema is for --decode json or avro or json-confluent or"),
        (["t", "--from", "soon"], 2, "--from soon: expected earliest, latest, a time"),
        (
            ["t", "--continuous", "--until", "latest"],
            2,
            "--until cannot be combined with --continuous",
        ),
        (["_kraftlog"], 1, "topic _kraftlog can't be archived"),
        (["t", "-c", "FILE"], 1, "sasl.mechanism=GSSAPI (Kafka's default) needs Kerberos"),
    ],
)
def test_invalid_arguments_are_reported_in_at_most_six_lines(
    spark: SparkSession,
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_SSL")
    words = [str(properties) if word == "FILE" else word for word in arguments]
    assert archive(our_node, tmp_path, *words) == code
    errors = capsys.readouterr().err
    assert text in errors
    assert len(errors.splitlines()) <= 6
