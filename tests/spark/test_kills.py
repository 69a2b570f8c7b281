"""Pipelines, and brokers under them, are killed: no record is lost or duplicated."""

from __future__ import annotations

import json
import os
import random
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kraftlog import Client
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.pipelines import replay
from kraftlog.spark.pipelines.verify import run as verify
from tests.server.local_cluster import LocalCluster
from tests.server.replication_load import until
from tests.spark.archives import all_positions, archive, dead_letters, produce, record_positions
from tests.spark.killed_archive import AFTER, BEFORE, BETWEEN
from tests.spark.pipeline_process import PipelineProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.slow]
COUNT = 100
SEED = 13
KILLED = -signal.SIGKILL
#: For the test that kills repeatedly: the records, in two partitions, and the limit of a batch.
MANY, BATCH = 100_000, 5_000
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.mark.parametrize(
    ("moment", "table_format"), [(BEFORE, "delta"), (AFTER, "delta"), (AFTER, "iceberg")]
)
def test_an_archive_killed_around_a_commit_continues(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    moment: str,
    table_format: str,
) -> None:
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    produce(our_client, topic, COUNT)
    lake = tmp_path / "lake"
    options = ("--max-records-per-batch", str(COUNT), "--format", table_format)
    run_killed_archive(moment, tmp_path, topic, our_node, *options)
    assert 0 < len(record_positions(lake, topic)) <= 2 * COUNT
    assert archive(our_node, lake, topic) == 0
    assert record_positions(lake, topic) == all_positions(COUNT)
    assert verify([str(lake), "-b", our_node]) == 0


def test_an_archive_killed_before_its_dead_letters_adds_them_once(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """At the kill the table has the second batch, but its dead letters are not committed."""
    topic = named("t")
    our_client.create_topic(topic, partitions=1)
    write(our_client, topic, ["no JSON" if n % 10 == 9 else f'{{"id": {n}}}' for n in range(COUNT)])
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    decode = ("--decode", "json", "--schema", str(tmp_path / "schema.json"))
    lake = tmp_path / "lake"
    run_killed_archive(
        BETWEEN, tmp_path, topic, our_node, *decode, "--max-records-per-batch", str(COUNT // 4)
    )
    good = [(0, offset) for offset in range(COUNT) if offset % 10 != 9]
    assert record_positions(lake, topic) == [
        (partition, offset) for partition, offset in good if offset < COUNT // 2
    ]
    assert [each["offset"] for each in dead_letters(lake)] == [9, 19]

    assert archive(our_node, lake, topic, *decode) == 0

    assert record_positions(lake, topic) == good
    assert sorted(each["offset"] for each in dead_letters(lake)) == [*range(9, COUNT, 10)]
    assert verify([str(lake), "-b", our_node]) == 0


def test_a_killed_jvm_ends_an_archive_with_one_paragraph(
    our_node: str, our_client: Client, named: Callable[[str], str], tmp_path: Path
) -> None:
    """And the next run continues from the table."""
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    produce(our_client, topic, MANY // 2)
    lake = tmp_path / "lake"
    arguments = ["archive", topic, "--to", str(lake), "-b", our_node]
    with PipelineProcess(tmp_path, *arguments, "--max-records-per-batch", "1000") as pipeline:
        pipeline.await_event("progress")
        pipeline.kill_jvm()
        assert pipeline.wait() == 1
        assert pipeline.errors() == (
            "kraftlog pipeline archive: Spark's Java process was killed (SIGKILL), by someone or "
            "because the machine ran out of memory. Start the pipeline again; -v prints Spark's "
            "log\n"
        )
    with PipelineProcess(tmp_path, *arguments) as pipeline:
        assert pipeline.wait() == 0
    assert record_positions(lake, topic) == all_positions(MANY // 2)


def test_an_archive_killed_again_and_again_has_every_record_once(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Each run is killed after a few commits, once the next batch has written some of its files."""
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    produce(our_client, topic, MANY // 2)
    lake, rng = tmp_path / "lake", random.Random(SEED)
    arguments = [topic, "--to", str(lake), "-b", our_node, "--max-records-per-batch", str(BATCH)]
    for _ in range(4):
        commits, files = rng.randint(1, 3), rng.randint(0, 2)
        with PipelineProcess(tmp_path, "archive", *arguments) as process:
            for _ in range(commits):
                process.await_event("progress")
            await_files(lake / topic, files)
            process.kill()
    unarchived = MANY - len(record_positions(lake, topic))
    assert 0 < unarchived < MANY

    assert archive(our_node, lake, topic) == 0

    assert record_positions(lake, topic) == all_positions(MANY // 2)
    assert verify([str(lake), "-b", our_node]) == 0


def test_a_continuous_archive_outlives_the_kill_of_a_broker(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    cluster = LocalCluster(tmp_path)
    try:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            client.create_topic("orders", partitions=2, replication_factor=3)
            produce(client, "orders", COUNT)
            words = ["orders", "--to", str(lake), "-b", cluster.servers, "--continuous"]
            with PipelineProcess(tmp_path, "archive", *words, "--trigger", "1 second") as process:
                await_archived(lake, 2 * COUNT)
                killed = client.cluster.topic("orders").partitions[0].leader
                cluster.kill(killed)
                produce(client, "orders", COUNT, first=COUNT)
                await_archived(lake, 4 * COUNT)
                cluster.restart(killed)
                await_all_in_sync(client, "orders")
                produce(client, "orders", COUNT, first=2 * COUNT)
                await_archived(lake, 6 * COUNT)
                assert process.stop() == 130
                assert "Traceback" not in process.errors()
        assert record_positions(lake, "orders") == all_positions(3 * COUNT)
        assert verify([str(lake), "-b", cluster.servers]) == 0
    finally:
        cluster.end()


def test_a_killed_replay_neither_repeats_nor_omits_records(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Two runs are killed while they write; the next one starts once all tasks have ended."""
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    size = 20_000
    table = pa.table(
        {
            "value": [str(number).encode() for number in range(size)],
            "partition": pa.array([number % 2 for number in range(size)], pa.int32()),
            "offset": [number // 2 for number in range(size)],
        }
    )
    write_deltalake(str(tmp_path / "old"), table)
    arguments = [str(tmp_path / "old"), "--to", topic, "-b", our_node]
    rng = random.Random(SEED)
    for min_records in (rng.randint(1, size // 3), rng.randint(size // 3, 2 * size // 3)):
        with PipelineProcess(tmp_path, "replay", *arguments, "--rate", "3000") as process:
            await_records(our_client, topic, min_records)
            process.kill()
    assert count_records(our_client, topic) < size

    assert replay.run(arguments) == 0

    values: dict[int, list[bytes | None]] = {0: [], 1: []}
    with our_client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            values[record.partition].append(record.value)
    assert values == {
        partition: [str(number).encode() for number in range(partition, size, 2)]
        for partition in (0, 1)
    }


def run_killed_archive(
    moment: str, folder: Path, topic: str, address: str, *arguments: str
) -> None:
    """Run an archive into `folder`/lake that is killed in its second batch."""
    words = [moment, topic, "--to", str(folder / "lake"), "-b", address, *arguments]
    with PipelineProcess(folder, *words, module="tests.spark.killed_archive") as process:
        assert process.wait() == KILLED, (folder / "errors.txt").read_text()


def write(client: Client, topic: str, values: Sequence[str]) -> None:
    with client.producer() as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def count_archived(lake: Path) -> int:
    """How many records of the topic `orders` the table has."""
    table = DeltaArchive.open(str(lake), "orders")
    return 0 if table is None else sum(table.state.offsets.values())


def await_archived(lake: Path, count: int) -> None:
    until(lambda: count_archived(lake) == count, f"{count} records in the table")


def await_records(client: Client, topic: str, min_records: int) -> None:
    until(
        lambda: count_records(client, topic) >= min_records, f"{min_records} records in the topic"
    )


def count_records(client: Client, topic: str) -> int:
    """The number of records in a topic without gaps."""
    return sum(each.offset for each in client.offsets(topic).values())


def await_files(path: Path, count: int) -> None:
    """Wait until the directory of a table has `count` more files than now."""

    def files() -> set[str]:
        return {name for name in os.listdir(path) if name.endswith(".parquet")}

    before = files()
    until(lambda: len(files() - before) >= count, f"{count} more files")


def await_all_in_sync(client: Client, topic: str) -> None:
    until(
        lambda: all(len(each.isr) == 3 for each in client.describe_topic(topic).partitions),
        "three replicas in sync",
    )
