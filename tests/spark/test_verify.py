"""`kraftlog pipeline verify` names every planted difference between a lake and the log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import CommitProperties, DeltaTable, write_deltalake

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.client.range_reader import RangeReader
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.pipelines.verify import run
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

#: Records of each partition.
COUNT = 200


def write_topic(client: Client, topic: str, partitions: int = 1, **configs: str) -> None:
    client.create_topic(topic, partitions=partitions, configs=configs)
    with client.producer(compression="zstd") as producer:
        for number in range(COUNT * partitions):
            producer.send(
                topic,
                None if number % 7 == 0 else f"value {number}",
                key=None if number % 3 == 0 else f"key {number}",
                partition=number % partitions,
                headers=[("name", b"1"), ("none", None)] if number % 5 == 0 else (),
            )


def rows_of(address: str, topic: str, partition: int, start: int, end: int) -> pa.Table:
    """The rows that an archive would write for a range."""
    offset_range = OffsetRange(topic, partition, start, end)
    row_maker = RowMaker(offset_range, with_headers=True)
    reader = RangeReader(cluster_of(address, LIMIT_S), offset_range.name, start, end)
    batches = [rows for fetched in reader for rows in row_maker.rows(fetched)]
    return pa.Table.from_batches(batches).drop_columns(["topic"])


def archive(address: str, lake: Path, topic: str, partitions: int = 1) -> str:
    """Write a table as an archive of two batches, with two files per partition; return its path."""
    path = str(lake / topic)
    for start in (0, COUNT // 2):
        for partition in range(partitions):
            rows = rows_of(address, topic, partition, start, start + COUNT // 2)
            write_deltalake(path, rows, mode="append")
    return path


def rewrite_file(path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace a Parquet file by one with changed rows; Delta's log says its new size."""
    pq.write_table(change(pq.read_table(path)), path)
    log = os.path.join(os.path.dirname(path), "_delta_log")
    for name in os.listdir(log):
        with open(os.path.join(log, name), encoding="utf-8") as file:
            actions = [json.loads(line) for line in file]
        for add in (each["add"] for each in actions if "add" in each):
            if add["path"] == os.path.basename(path):
                add["size"] = os.path.getsize(path)
        with open(os.path.join(log, name), "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in actions)


def files_of(table: str) -> list[str]:
    """The files of a table by their first offset."""
    actions = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    in_order = sorted(actions, key=lambda each: (each["min.partition"], each["min.offset"]))
    return [os.path.join(table, each["path"]) for each in in_order]


class Verification:
    """A run of `pipeline verify --json`: its exit code, errors and report."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.code = run([*map(str, arguments), "--json"])
        captured = capsys.readouterr()
        lines = [json.loads(line) for line in captured.out.splitlines()]
        self.errors = captured.err
        self.report: dict[str, Any] = lines[-1] if lines else {}

    def findings(self, topic: str) -> list[tuple[str, int, list[list[int]]]]:
        return [
            (each["kind"], each["records"], each["offsets"])
            for each in self.report["findings"]
            if each["topic"] == topic
        ]

    def files(self, topic: str) -> list[set[str]]:
        return [set(each["files"]) for each in self.report["findings"] if each["topic"] == topic]

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        return [each for each in self.report["partitions"] if each["topic"] == topic]


def test_an_archive_is_equal_to_its_log(
    spark: SparkSession,
    client: Client,
    address: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also after its small files were compacted into one."""
    plain, compacted = named("plain"), named("compacted")
    for topic in (plain, compacted):
        write_topic(client, topic, 2)
        archive(address, tmp_path, topic, 2)
    DeltaTable(str(tmp_path / compacted)).optimize.compact()
    assert len(DeltaTable(str(tmp_path / compacted)).file_uris()) == 1

    verified = Verification(capsys, tmp_path, "-b", address)

    assert verified.report["findings"] == []
    assert verified.code == 0
    parts = verified.partitions(plain) + verified.partitions(compacted)
    assert [(each["lake"], each["log"]) for each in parts] == [(COUNT, COUNT)] * 4
    assert [each["lake_checksum"] for each in parts] == [each["log_checksum"] for each in parts]
    assert len({each["lake_checksum"] for each in parts}) == 4
    compared = {"key", "value", "timestamp", "timestampType", "headers"}
    assert set(verified.report["tables"][0]["compared"]) == compared


@pytest.fixture
def our_client(our_node: str) -> Iterator[Client]:
    with Client(our_node, timeout_s=LIMIT_S) as connected:
        yield connected


def test_each_difference_is_named(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost, removed, twice, changed, header, short = map(
        named, ("lost", "taken", "twice", "changed", "header", "short")
    )
    half = COUNT // 2
    table = {}
    for topic in (lost, removed, twice, changed, header, short):
        write_topic(our_client, topic)
        table[topic] = archive(our_node, tmp_path, topic)
    os.remove(files_of(table[lost])[1])
    DeltaTable(table[removed]).delete(f"offset >= 10 and offset < {half}")
    write_deltalake(table[twice], pq.read_table(files_of(table[twice])[0]), mode="append")

    def with_value(rows: pa.Table) -> pa.Table:
        values = rows.column("value").to_pylist()
        values[3] = b"value X"
        return rows.set_column(rows.column_names.index("value"), "value", pa.array(values))

    def with_header(rows: pa.Table) -> pa.Table:
        index = rows.column_names.index("headers")
        headers = rows.column("headers").to_pylist()
        headers[5][1]["value"] = b""
        kind = rows.schema.field("headers").type
        return rows.set_column(index, "headers", pa.array(headers, kind))

    rewrite_file(files_of(table[changed])[0], with_value)
    rewrite_file(files_of(table[header])[1], with_header)
    our_client.delete_topic(short)
    write_topic(our_client, short)
    our_client.delete_records({(short, 0): 20})
    last_row = rows_of(our_node, short, 0, COUNT - 1, COUNT)
    row = last_row.set_column(last_row.column_names.index("offset"), "offset", pa.array([COUNT]))
    write_deltalake(table[short], row, mode="append")

    verified = Verification(capsys, tmp_path, "-b", our_node)

    assert verified.code == 3
    assert verified.findings(lost) == [("missing", half, [[half, COUNT - 1]])]
    assert verified.files(lost) == [{files_of(table[lost])[1]}]
    assert verified.findings(removed) == [("missing", half - 10, [[10, half - 1]])]
    assert verified.findings(twice) == [("duplicate", half, [[0, half - 1]])]
    copies = {path for path in files_of(table[twice]) if path != files_of(table[twice])[-1]}
    assert verified.files(twice) == [copies]
    assert verified.findings(changed) == [("different", 1, [[3, 3]])]
    assert verified.files(changed) == [{files_of(table[changed])[0]}]
    assert verified.findings(header) == [("different", 1, [[half + 5, half + 5]])]
    assert ("not in the log", 1, [[COUNT, COUNT]]) in verified.findings(short)
    assert verified.partitions(short)[0]["expired"] == 20


def test_records_deleted_by_compaction_are_counted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records that the log still has must be in the lake, and equal."""
    settings = ("--override", "log.cleaner.backoff.ms=20")
    node = NodeProcess(str(tmp_path / "data"), *settings, errors=str(tmp_path / "err"), topics={})
    try:
        with Client(node.address, timeout_s=LIMIT_S) as client:
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            client.create_topic(
                "kept", partitions=1, configs=configs | {"internal.segment.bytes": "20000"}
            )
            values = [b"%d" % number * 20 for number in range(2000)]
            keys = [b"%d" % (number % 10) for number in range(2000)]
            for start in range(0, 2000, 100):
                with client.producer() as producer:
                    for number in range(start, start + 100):
                        producer.send("kept", values[number], key=keys[number])
            left = wait_until_compacted(client, 2000)
            values[1999] = b"another"
            rows = {
                "partition": pa.array([0] * 2000, pa.int32()),
                "offset": pa.array(range(2000)),
                "key": keys,
                "value": values,
            }
            write_deltalake(str(tmp_path / "lake" / "kept"), pa.table(rows))
            verified = Verification(capsys, tmp_path / "lake", "-b", node.address)
    finally:
        node.kill_if_running()

    assert verified.code == 3
    assert verified.findings("kept") == [("different", 1, [[1999, 1999]])]
    [part] = verified.partitions("kept")
    assert part["log"] <= left
    assert part["lake"] == part["log"]
    assert part["compacted"] == 2000 - part["log"]


def wait_until_compacted(client: Client, written: int) -> int:
    """Wait until records are gone; return how many are left."""
    deadline = Deadline(LIMIT_S)
    while True:
        with client.consume("kept", "beginning", until_end=True) as records:
            left = sum(1 for _ in records)
        if left < written:
            return left
        assert not deadline.is_over
        deadline.pause(0.02)


def test_committed_records_of_transactions_are_compared(
    spark: SparkSession,
    kafka: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Markers and aborted records are gaps in the log, and not missing in the lake."""
    topic = named("t")
    with Client(kafka, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(LIMIT_S)
    committed_numbers = []
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        assert producer.flush(LIMIT_S) == 0  # else an aborted record is not sent at all
        if number % 2:
            producer.abort_transaction(LIMIT_S)
        else:
            producer.commit_transaction(LIMIT_S)
            committed_numbers.append(number)
    rows = pa.table(
        {
            "partition": pa.array([0] * len(committed_numbers), pa.int32()),
            "offset": pa.array([2 * number for number in committed_numbers]),
            "value": [str(number) for number in committed_numbers],
            "key": pa.array([None] * len(committed_numbers), pa.binary()),
        }
    )
    metadata = {"kraftlog": {"ranges": {"0": [0, 12]}, "topicId": ""}}
    properties = CommitProperties(custom_metadata=metadata)
    write_deltalake(str(tmp_path / topic), rows, commit_properties=properties)

    committed = Verification(capsys, tmp_path / topic, "-b", kafka)
    assert committed.code == 0, committed.report
    uncommitted = Verification(
        capsys, tmp_path / topic, "-b", kafka, "--isolation-level", "read_uncommitted"
    )
    assert uncommitted.code == 3
    assert uncommitted.findings(topic) == [("missing", 3, [[2, 2], [6, 6], [10, 10]])]

    # For tables of other programs, the default is read_uncommitted.
    rows = pa.table(
        {
            "partition": pa.array([0] * 6, pa.int32()),
            "offset": pa.array(range(0, 12, 2)),
            "value": [str(number) for number in range(6)],
        }
    )
    write_deltalake(str(tmp_path / "other" / topic), rows)
    words = (tmp_path / "other" / topic, "-b", kafka)
    assert Verification(capsys, *words).code == 0
    committed = Verification(capsys, *words, "--isolation-level", "read_committed")
    assert committed.findings(topic) == [("not in the log", 3, [[2, 2], [6, 6], [10, 10]])]


def test_a_decoded_table_is_compared_by_its_offsets(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A record that could not be decoded is in the table of dead letters instead."""
    topic = named("t")
    write_topic(our_client, topic)
    whole = rows_of(our_node, topic, 0, 0, COUNT)
    decoded = whole.drop_columns(["value"]).append_column("amount", pa.array(range(COUNT)))
    metadata = {"kraftlog": {"ranges": {"0": [0, COUNT]}, "topicId": ""}}
    write_deltalake(
        str(tmp_path / topic),
        pa.concat_tables([decoded.slice(0, 50), decoded.slice(52, COUNT - 55)]),
        commit_properties=CommitProperties(custom_metadata=metadata),
    )
    dead = pa.table({"topic": [topic], "partition": pa.array([0], pa.int32()), "offset": [50]})
    write_deltalake(str(tmp_path / "_dead_letters"), dead)

    code = run([str(tmp_path), "-b", our_node])

    text = capsys.readouterr().out
    assert code == 3
    assert f"{topic}-0: 4 records missing at offsets 51, 197-199" in text
    assert (
        f"{topic}: value, amount not as in the log, so not compared; compared: offset, key, "
        in text
    )
    assert "1 dead letters" in text


def test_a_log_that_ends_before_the_archive_is_a_finding(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Even if the lost offsets have no rows, such as that of a transaction marker."""
    topic = named("t")
    write_topic(our_client, topic)
    metadata = {"kraftlog": {"ranges": {"0": [0, COUNT + 5]}, "topicId": ""}}
    properties = CommitProperties(custom_metadata=metadata)
    rows = rows_of(our_node, topic, 0, 0, COUNT)
    write_deltalake(str(tmp_path / topic), rows, commit_properties=properties)
    verified = Verification(capsys, tmp_path, "-b", our_node)
    assert verified.code == 3
    assert verified.findings(topic) == [("not in the log", 0, [[COUNT, COUNT + 4]])]


def test_the_table_of_a_recreated_topic_is_refused(
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    write_topic(our_client, topic)
    metadata = {"kraftlog": {"ranges": {"0": [0, COUNT]}, "topicId": "AAAAAAAAAAAAAAAAAAAAAg"}}
    properties = CommitProperties(custom_metadata=metadata)
    rows = rows_of(our_node, topic, 0, 0, COUNT)
    write_deltalake(str(tmp_path / topic), rows, commit_properties=properties)
    assert run([str(tmp_path), "-b", our_node]) == 1
    assert "it was deleted and created again" in capsys.readouterr().err


def test_a_dry_run_says_what_would_be_compared(
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = named("t")
    write_topic(our_client, topic)
    archive(our_node, tmp_path, topic)
    assert run([str(tmp_path / topic), "-b", our_node, "--dry-run"]) == 0
    [_, line] = capsys.readouterr().out.splitlines()
    assert line.split()[:5] == [topic, "1", "1", "2", str(COUNT)]


def test_a_directory_without_a_table_is_refused(
    our_node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(tmp_path), "-b", our_node]) == 1
    assert "is no table and has none" in capsys.readouterr().err
