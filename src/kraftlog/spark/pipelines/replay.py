"""`kraftlog pipeline replay`: writes a table's records to a topic, in order, at a chosen rate.

Each record keeps its partition, and gets a header with its original offset. Each partition is
written in the order of offsets. So after an interruption, the next run continues each partition at
the offset after its last record.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql import functions as f

from kraftlog.client import offsets
from kraftlog.client.arguments import time_of
from kraftlog.client.range_reader import RangeReader
from kraftlog.client.text_table import table
from kraftlog.errors import ConfigError
from kraftlog.records.reader import read_records
from kraftlog.spark.pipelines.common import DONE, Pipeline, parser, run_pipeline
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.positions import prorated
from kraftlog.spark.tables import read_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from kraftlog.client.client import Client
    from kraftlog.spark.positions import Positions

#: The header of a replayed record: its original topic, partition and offset, as JSON.
HEADER = "kraftlog.replay"
#: A Spark job has at most this many offsets; with a low --rate, fewer.
_MAX_OFFSETS_PER_JOB = 1_000_000
#: With --rate, a job has the records of at most this many seconds.
_SECONDS_PER_JOB = 2
_NS = 1_000_000_000
_REQUIRED = ("value", "partition", "offset")


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_pipeline("replay", options, lambda pipeline: _Replay(pipeline).run())


def _parser() -> argparse.ArgumentParser:
    command_line = parser(
        "replay",
        "Write the records of a table back into a topic: each to its partition, in the order of "
        "offsets.\nAfter an interruption, the same command continues.",
        "lake/orders --to orders-again --rate 5000",
    )
    command_line.add_argument(
        "table",
        metavar="TABLE",
        help="a Delta table or Parquet files with the columns value, partition and offset, and "
        "optionally key, headers, timestamp and topic",
    )
    command_line.add_argument("--to", required=True, metavar="TOPIC", help="an existing topic")
    command_line.add_argument(
        "--rate", type=float, metavar="N", help="records per second; default: no limit"
    )
    command_line.add_argument(
        "--topic", metavar="NAME", help="only records of this topic, if the table has several"
    )
    command_line.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        help="the first offset, or the earliest time such as 2026-05-01T12:00 (UTC)",
    )
    command_line.add_argument(
        "--until", dest="end", metavar="WHERE", help="the offset or time before which to end"
    )
    command_line.add_argument(
        "--keep-timestamps",
        action="store_true",
        help="keep the records' timestamps; default: the time of the replay",
    )
    command_line.add_argument(
        "--again",
        action="store_true",
        help="start from the beginning, even if the topic has some of these records",
    )
    return command_line


class _Replay:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        if self._options.rate is not None and self._options.rate <= 0:
            raise UsageError(f"--rate {self._options.rate}: expected more than 0")
        self._limits = _limits(self._options)

    def run(self) -> int:
        # Checks that do not need Spark run before it starts.
        if columns := _columns(self._options.table):
            self._check_columns(columns)
        with self._pipeline.client() as client:
            client.cluster.topic(self._options.to)
        rows = self._selected(_read(self._pipeline, self._options.table))
        name = self._topic_name(rows)
        rows = rows.where(f.col("topic") == name) if "topic" in rows.columns else rows
        spans = (
            rows.groupBy("partition")
            .agg(
                f.min("offset").alias("first"),
                f.max("offset").alias("last"),
                f.count("*").alias("records"),
            )
            .collect()
        )
        table_ranges = {
            (self._options.to, row.partition): (row.first, row.last + 1) for row in spans
        }
        # A new client, as brokers close connections that are idle while Spark works.
        with self._pipeline.client() as client:
            next_offsets = self._next_offsets(client, [index for _, index in table_ranges], name)
        start = {
            key: max(first, next_offsets.get(key, 0)) for key, (first, _) in table_ranges.items()
        }
        end = {key: max(last, start[key]) for key, (_, last) in table_ranges.items()}
        remaining = rows.where(_between(start, end))
        total = remaining.count() if any(start[key] < end[key] for key in end) else 0
        already = sum(row.records for row in spans) - total
        if self._options.dry_run:
            self._print_plan(table_ranges, start, total, already)
            return DONE
        if total:
            self._replay(_records(remaining, name, self._options), start, end, total)
        text = (
            f"{total + already:,} records of {self._options.table} are in topic "
            f"{self._options.to}: {total:,} written now"
        )
        text += ", with --again" if self._options.again else f", {already:,} were there already"
        data = {"records": total, "already": already, "topic": self._options.to}
        self._pipeline.progress.result(data, text)
        return DONE

    def _check_columns(self, columns: Sequence[str]) -> None:
        name, topic = self._options.table, self._options.topic
        if missing := [each for each in _REQUIRED if each not in columns]:
            raise ConfigError(
                f"{name} has no column {' and '.join(missing)}; its columns are "
                f"{', '.join(columns)}"
            )
        for column, _ in self._limits:
            if column not in columns:
                raise ConfigError(f"{name} has no column {column} to select by")
        if self._options.keep_timestamps and "timestamp" not in columns:
            raise ConfigError(f"{name} has no column timestamp to keep")
        if topic and "topic" not in columns and topic != _topic_named_by(name):
            raise UsageError(
                f"--topic {topic}: {name} has no column topic to choose by, so all its records are "
                "replayed; leave --topic out"
            )

    def _selected(self, rows: DataFrame) -> DataFrame:
        """The rows within --from and --until; raises ConfigError if a needed column is missing."""
        self._check_columns(rows.columns)
        for (column, is_end), limit in self._limits.items():
            value = f.lit(limit)
            rows = rows.where(f.col(column) < value if is_end else f.col(column) >= value)
        return rows

    def _topic_name(self, rows: DataFrame) -> str:
        """The original topic of the records to replay."""
        requested: str | None = self._options.topic
        if "topic" not in rows.columns:
            return _topic_named_by(self._options.table)
        names = sorted(row.topic for row in rows.select("topic").distinct().limit(20).collect())
        if requested is None and len(names) > 1:
            raise UsageError(f"the table has records of {', '.join(names)}: choose with --topic")
        if requested is not None and names and requested not in names:
            raise UsageError(f"--topic {requested}: the table has {', '.join(names)}")
        return requested or (names[0] if names else "")

    def _next_offsets(self, client: Client, indexes: Sequence[int], name: str) -> Positions:
        """The offsets at which an earlier replay is to continue; empty with --again.

        Raises ConfigError if the topic lacks a partition.
        """
        topic = self._options.to
        count = len(client.cluster.topic(topic).partitions)
        if indexes and max(indexes) >= count:
            raise ConfigError(
                f"topic {topic} has {count} partitions, and the table has records of partition "
                f"{max(indexes)}: create a topic with at least {max(indexes) + 1}"
            )
        return {} if self._options.again else _replayed_until(client, topic, indexes, name)

    def _replay(self, rows: DataFrame, start: Positions, end: Positions, total: int) -> None:
        """Write range after range of offsets, one job each; wait between jobs to keep the rate."""
        rate = self._options.rate
        max_offsets = _MAX_OFFSETS_PER_JOB
        if rate is not None:
            max_offsets = max(1, min(max_offsets, int(rate * _SECONDS_PER_JOB)))
        self._pipeline.progress.begin()
        started_ns = time.monotonic_ns()
        written = 0
        for start_of_job, end_of_job in _jobs(start, end, max_offsets):
            self._pipeline.progress.show(written, total=total, unit="records")
            if rate is not None:
                due_ns = started_ns + int(written / rate * _NS)
                time.sleep(max(0, due_ns - time.monotonic_ns()) / _NS)
            rows_of_job = rows.where(_between(start_of_job, end_of_job))
            written += rows_of_job.count()
            # A single task for each partition keeps the order.
            parts = rows_of_job.repartition(len(start_of_job), "partition")
            ordered = parts.sortWithinPartitions("partition", "offset").drop("offset")
            writer = ordered.write.format("kraftlog").mode("append")
            writer.options(**self._pipeline.source_options, topic=self._options.to).save()
        self._pipeline.progress.show(written, total=total, unit="records")

    def _print_plan(
        self,
        table_ranges: Mapping[tuple[str, int], tuple[int, int]],
        start: Positions,
        total: int,
        already: int,
    ) -> None:
        rows = [
            (key[1], first, end - 1, start[key] if start[key] < end else None)
            for key, (first, end) in sorted(table_ranges.items())
        ]
        heads = ("PARTITION", "FIRST", "LAST", "NEXT")
        names = [head.lower() for head in heads]
        text = f"{table(heads, rows)}\n{total:,} records would be written to {self._options.to}"
        # With --again, replayed records in the topic are not counted.
        text += ", with --again" if self._options.again else f", {already:,} are there already"
        data = {"partitions": [dict(zip(names, row, strict=True)) for row in rows]}
        self._pipeline.progress.result({**data, "records": total, "already": already}, text)


def _limits(options: argparse.Namespace) -> dict[tuple[str, bool], int | datetime]:
    """The limits of --from and --until, by column and by whether the limit is the end."""
    limits: dict[tuple[str, bool], int | datetime] = {}
    for name, text in (("from", options.start), ("until", options.end)):
        if text is None:
            continue
        if text.isdecimal():
            limits["offset", name == "until"] = int(text)
            continue
        try:
            limits["timestamp", name == "until"] = time_of(text)
        except ValueError:
            raise UsageError(
                f"--{name} {text}: expected an offset, or a time such as 2026-05-01T12:00:00Z"
            ) from None
    return limits


def _topic_named_by(directory: str) -> str:
    """The topic of a table without a column `topic`: the name of its directory."""
    return os.path.basename(os.path.abspath(directory))


def _columns(directory: str) -> list[str]:
    """The columns of a Delta table; empty for Parquet files, whose columns only Spark reads.

    Raises ConfigError if the directory does not exist, is a Delta table without rows, or is a
    directory of tables.
    """
    if "://" not in directory and not os.path.exists(directory):
        raise ConfigError(f"{directory} does not exist: expected a Delta table or Parquet files")
    if _is_delta(directory):
        opened = DeltaTable(directory)
        if not opened.file_uris():
            raise ConfigError(f"{directory} is a Delta table without rows")
        return [field.name for field in opened.schema().fields]
    if os.path.isdir(directory) and (tables := _tables_below(directory)):
        raise ConfigError(
            f"{directory} is a directory of tables: name one of them: {', '.join(tables)}"
        )
    return []


def _is_delta(directory: str) -> bool:
    return not os.path.isfile(directory) and DeltaTable.is_deltatable(directory)


def _tables_below(directory: str) -> list[str]:
    paths = (entry.path for entry in os.scandir(directory) if entry.is_dir())
    return sorted(path for path in paths if DeltaTable.is_deltatable(path))


def _read(pipeline: Pipeline, directory: str) -> DataFrame:
    """The rows of a Delta table, or of Parquet files."""
    if _is_delta(directory):
        return read_table(pipeline.spark, directory)
    return pipeline.spark.read.parquet(directory)


def _records(rows: DataFrame, name: str, options: argparse.Namespace) -> DataFrame:
    """The rows with the sink's columns, including the header, and with their offset."""
    position = f.to_json(f.struct(f.lit(name).alias("topic"), "partition", "offset"))
    replay_header = f.struct(f.lit(HEADER).alias("key"), position.cast("binary").alias("value"))
    headers = f.array(replay_header)
    if "headers" in rows.columns:
        # Drop the header of an earlier replay.
        other_headers = f.filter("headers", lambda header: header["key"] != HEADER)
        empty = f.array().cast("array<struct<key:string,value:binary>>")
        headers = f.concat(f.coalesce(other_headers, empty), headers)
    columns: list[Column] = [f.col("value"), f.col("partition").cast("int"), f.col("offset")]
    columns += [f.col(each) for each in ("key",) if each in rows.columns]
    if options.keep_timestamps:
        columns.append(f.col("timestamp"))
    return rows.select(*columns, headers.alias("headers"))


def _between(start: Positions, end: Positions) -> Column:
    """The condition that a row is in the range of its partition."""
    condition = f.lit(False)
    for key, first in start.items():
        if first < end[key]:
            offset = f.col("offset")
            condition |= (f.col("partition") == key[1]) & (offset >= first) & (offset < end[key])
    return condition


def _jobs(
    start: Positions, end: Positions, max_offsets: int
) -> Iterator[tuple[Positions, Positions]]:
    """Successive ranges of all partitions, each of about `max_offsets` offsets in total."""
    while any(start[key] < end[key] for key in end):
        end_of_job = prorated(start, end, max_offsets)
        yield start, end_of_job
        start = end_of_job


def _replayed_until(client: Client, topic: str, indexes: Sequence[int], name: str) -> Positions:
    """The next offset to replay of each partition that ends with a replayed record of topic `name`.

    The offset is from the header of that record.
    """
    cluster = client.cluster
    names = [(topic, index) for index in indexes]
    ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST))
    starts = offsets.find(cluster, dict.fromkeys(names, offsets.EARLIEST))
    next_offsets: Positions = {}
    for key in names:
        end = ends[key].offset
        if end <= starts[key].offset:
            continue
        for fetched in RangeReader(cluster, key, end - 1, end):
            for start, _ in fetched.batches:
                records = [each for each in read_records(fetched.data, start) if each.offset < end]
                position = json.loads(dict(records[-1].headers).get(HEADER) or b"{}")
                if (position.get("topic"), position.get("partition")) == (name, key[1]):
                    next_offsets[key] = position["offset"] + 1
    return next_offsets
