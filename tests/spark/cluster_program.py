"""The program of the cluster test, in its own process: `python -m … MASTER ADDRESS TOPIC LAKE`.

It prints row counts, digests and exit codes as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the name in Spark's documentation

from kraftlog.cli import main as kraftlog
from kraftlog.spark.pipelines.simulate import SCHEMA, RunSettings, player
from kraftlog.spark.session import spark_session
from tests.spark.standalone import JAVA_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.host": "127.0.0.1",
}
SCENARIO, SEEDS = "leader-partitioned", range(1, 9)


def main(master: str, address: str, topic: str, lake: str) -> None:
    spark = spark_session("test", master=master, settings=SETTINGS)
    try:
        results = {
            "row_counts": row_counts(spark, address, topic),
            "digests": digests(spark),
            "exit_codes": run_pipelines(address, topic, lake),
        }
        print(json.dumps(results))
    finally:
        spark.stop()


def row_counts(spark: SparkSession, address: str, topic: str) -> list[list[int]]:
    """Partition, number of records, number of distinct offsets and largest offset, sorted."""
    counts = (
        spark.read.format("kraftlog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .load()
        .groupBy("partition")
        .agg(F.count("*"), F.count_distinct("offset"), F.max("offset"))
        .orderBy("partition")
        .collect()
    )
    return [list(row) for row in counts]


def run_pipelines(address: str, topic: str, lake: str) -> list[int]:
    """Run three pipelines in the Spark session of this process; return their exit codes."""
    commands = (
        ["archive", topic, "--to", lake],
        ["verify", lake],
        ["replay", f"{lake}/{topic}", "--to", replay_topic(topic)],
    )
    return [kraftlog(["pipeline", *words, "-b", address]) for words in commands]


def replay_topic(topic: str) -> str:
    """The name of the topic to which a topic is replayed."""
    return f"{topic}-again"


def digests(spark: SparkSession) -> dict[int, str]:
    """The digests of runs by seed; the first attempt of each task fails after its work."""
    play = player(RunSettings(SCENARIO, nodes=False, kinds=None))

    def play_and_fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from play(batches)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError("the first attempt of each task fails")

    seeds = spark.range(SEEDS.start, SEEDS.stop, 1, 2)
    return {row.seed: row.digest for row in seeds.mapInArrow(play_and_fail_once, SCHEMA).collect()}


if __name__ == "__main__":
    main(*sys.argv[1:])
