"""What is measured: a task reads or writes rows with a format of Spark, and returns their number.

To add a row to the page, add a function and its entry in `TASKS`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from bench.spark.nowhere import Nowhere
from bench.spark.ready import Ready
from kraftlog import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

#: Formats of Spark: its own Kafka connector's, and ours.
CONNECTOR, OURS = "kafka", "kraftlog"
BATCHES = 10
#: At most this many rows are written.
WRITTEN_ROWS = 1_000_000
WIDE_PARTITIONS = 100
_numbers = count()


class Bench(NamedTuple):
    """What a task works with; `topic` has `records` records of 100 bytes in four partitions."""

    spark: SparkSession
    address: str
    topic: str
    records: int
    folder: str


class Task(NamedTuple):
    what: str
    run: Callable[[Bench, str], int]
    #: Rows per second as a multiple of the connector's: what is required, and the aim.
    required: float | None = None
    aim: float | None = None
    formats: tuple[str, ...] = (CONNECTOR, OURS)
    #: The figure is the time that the task takes, not the rows per second.
    is_time: bool = False


def batch(bench: Bench, source: str) -> int:
    rows = bench.spark.read.format(source).options(**_options(bench)).load()
    rows.write.format("noop").mode("overwrite").save()
    return bench.records


def one_batch(bench: Bench, source: str) -> int:
    return _stream(bench, source, "noop")


def ten_batches(bench: Bench, source: str) -> int:
    return _stream(bench, source, "noop", maxOffsetsPerTrigger=-(-bench.records // BATCHES))


def ready(bench: Bench, source: str) -> int:  # noqa: ARG001 - a source of its own
    """Ten batches of rows that need no fetch and no decoder: no source in Python is faster."""
    bench.spark.dataSource.register(Ready)
    return ten_batches(bench, Ready.name())


def parquet(bench: Bench, source: str) -> int:
    return _stream(bench, source, "parquet")


def write(bench: Bench, sink: str) -> int:
    """Write rows with a key and 100 bytes into a new topic of four partitions."""
    topic = f"written-{next(_numbers)}"
    with Client(bench.address) as client:
        client.create_topic(topic, partitions=4)
    wanted = min(bench.records, WRITTEN_ROWS)
    rows = _rows_to_write(bench, wanted)
    options = {"kafka.bootstrap.servers": bench.address, "topic": topic}
    rows.write.format(sink).options(**options).mode("append").save()
    return wanted


def _rows_to_write(bench: Bench, count: int) -> DataFrame:
    return bench.spark.range(0, count, 1, 2).selectExpr(
        "cast(cast(id as string) as binary) key",
        "cast(rpad(cast(id as string), 100, 'x') as binary) value",
    )


def discard(bench: Bench, sink: str) -> int:  # noqa: ARG001 - a sink of its own
    """Write the same rows with a sink in Python that discards them: no such sink is faster."""
    wanted = min(bench.records, WRITTEN_ROWS)
    bench.spark.dataSource.register(Nowhere)
    _rows_to_write(bench, wanted).write.format(Nowhere.name()).mode("append").save()
    return wanted


def first_row(bench: Bench, source: str) -> int:
    """Read until the first row of a topic of 100 partitions, of which one has a record."""
    topic = "wide"
    with Client(bench.address) as client:
        if topic not in [each.name for each in client.topics()]:
            client.create_topic(topic, partitions=WIDE_PARTITIONS)
            client.produce(topic, b"first", partition=WIDE_PARTITIONS - 1)
    options = _options(bench) | {"subscribe": topic}
    rows = bench.spark.read.format(source).options(**options).load().select("value").take(1)
    assert [bytes(row.value) for row in rows] == [b"first"]
    return 1


def archive(bench: Bench, source: str) -> int:
    """Archive into a new Delta table, exactly once; the connector streams to Parquet instead."""
    if source == CONNECTOR:
        return parquet(bench, source)
    _pipeline("archive", bench.topic, "--to", _new_folder(bench), "-b", bench.address)
    return bench.records


def verify(bench: Bench, source: str) -> int:  # noqa: ARG001 - only ours verifies
    """Verify an archive; the first turn, which only warms up, creates it."""
    lake = os.path.join(bench.folder, "lake")
    if not os.path.exists(lake):
        _pipeline("archive", bench.topic, "--to", lake, "-b", bench.address)
    _pipeline("verify", lake, "-b", bench.address)
    return bench.records


def _pipeline(name: str, *arguments: str) -> None:
    """Run a pipeline in the existing session, without its output."""
    run: Callable[[Sequence[str]], int] = import_module(f"kraftlog.spark.pipelines.{name}").run
    with (
        open(os.devnull, "w", encoding="utf-8") as silent,
        redirect_stdout(silent),
        redirect_stderr(silent),
    ):
        code = run(arguments)
    assert code == 0, f"{name}: exit code {code}"


def _new_folder(bench: Bench) -> str:
    return tempfile.mkdtemp(dir=bench.folder)


def _stream(bench: Bench, source: str, sink: str, **more: int) -> int:
    folder = _new_folder(bench)
    rows = bench.spark.readStream.format(source).options(**_options(bench), **more).load()
    query = (
        rows.writeStream.format(sink)
        .option("checkpointLocation", os.path.join(folder, "checkpoint"))
        .option("path", os.path.join(folder, "rows"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(each["numInputRows"] for each in query.recentProgress)


def _options(bench: Bench) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bench.address,
        "subscribe": bench.topic,
        "startingOffsets": "earliest",
    }


TASKS = {
    "batch": Task("batch read to noop", batch, 1.6, 2.5),
    "stream": Task("stream, one batch to noop", one_batch, 1.3, 1.6),
    "batches": Task("stream, ten batches to noop", ten_batches, 1.2, 1.6),
    "ready": Task("ten batches from a source in Python with ready rows", ready, formats=(OURS,)),
    "parquet": Task("stream to Parquet", parquet, 1.0, 1.2),
    "write": Task("write 1 M rows", write, 1.5, 3.0),
    "discard": Task(
        "the same rows to a sink in Python that discards them", discard, formats=(OURS,)
    ),
    "first": Task("seconds to the first row of 100 partitions (aim: 0.5)", first_row, is_time=True),
    "archive": Task("archive, exactly once; the connector: stream to Parquet", archive, 1.2, 1.8),
    "verify": Task("verify the archive", verify, formats=(OURS,)),
}
