"""`kraftlog pipeline replay`: writes a table's records to a topic, in order, each once.

Each record keeps its partition, and gets a header with its original offset. A partition is written
in the order of offsets, by one task at a time; `kraftlog.spark.replay.lane` says why repeated and
late tasks write nothing twice, and where a run that is started again continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from kraftlog.client.arguments import time_of
from kraftlog.client.text_table import table
from kraftlog.errors import ConfigError
from kraftlog.spark.pipelines.common import DONE, Pipeline, parser, run_pipeline
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.pipelines.progress import duration_text
from kraftlog.spark.replay.lane import HEADER, Lane, Replay, commit_lanes, find_lanes
from kraftlog.spark.replay.schedule import duration_s, jobs, paced_jobs
from kraftlog.spark.replay.table import REQUIRED, TIMESTAMP, ReplayTable, RowFilter
from kraftlog.spark.replay.task import REPORT_SQL, lane_task, reported_lane
from kraftlog.spark.schema import OUT_OF_RANGE
from kraftlog.spark.sink_options import sink_options
from kraftlog.spark.tables import read_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column, DataFrame
    from pyspark.sql import Row as SparkRow

    from kraftlog.client.cluster import Cluster
    from kraftlog.spark.positions import Positions
    from kraftlog.spark.replay.schedule import Job
    from kraftlog.spark.replay.table import Span

#: The longest pause after which the progress is shown again.
_PAUSE_S = 1.0
_NS = 1_000_000_000


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
        help="a Delta or Iceberg table, or Parquet files, with the columns value, partition and "
        "offset, and optionally key, headers, timestamp and topic",
    )
    command_line.add_argument("--to", required=True, metavar="TOPIC", help="an existing topic")
    speed = command_line.add_mutually_exclusive_group()
    speed.add_argument(
        "--rate", type=float, metavar="N", help="records per second; default: no limit"
    )
    speed.add_argument(
        "--pace",
        type=float,
        metavar="X",
        help="as the records' timestamps say: 1 is the original pace, 2 is twice as fast",
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
        "--filter",
        metavar="SQL",
        help="only records for which this expression of Spark is true, such as "
        "\"CAST(key AS STRING) LIKE 'eu-%%'\"",
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


class _Plan:
    """Which records are in the table, and which of them are left to write."""

    def __init__(self, replay: Replay, spans: Sequence[Span], lanes: Mapping[int, Lane]) -> None:
        self.replay = replay
        self.spans = spans
        self.lanes = dict(lanes)
        self.start: Positions = {}
        self.end: Positions = {}
        for span in spans:
            name = (replay.target, span.partition)
            self.start[name] = max(span.first, lanes[span.partition].next_offset)
            self.end[name] = max(span.last + 1, self.start[name])
        #: What is left, and the number of records that are left and that the topic has.
        self.rest: Sequence[Span] = ()
        self.records = 0
        self.already = 0

    @property
    def is_done(self) -> bool:
        return self.start == self.end


class _Replay:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = options = pipeline.options
        for name in ("rate", "pace"):
            if (value := getattr(options, name)) is not None and not 0 < value < float("inf"):
                raise UsageError(f"--{name} {value}: expected more than 0")
        self._limits = _limits(options)
        self._writing = sink_options(pipeline.source_options)
        if not self._writing.is_idempotent:
            raise ConfigError("replay needs acks=all and enable.idempotence=true")
        self._table = ReplayTable(options.table)
        self._check_columns()

    def run(self) -> int:
        with self._pipeline.client() as client:
            client.cluster.topic(self._options.to)
            self._say_what_was_removed()
            plan = self._plan(client.cluster)
            if self._options.dry_run:
                self._print_plan(plan)
                return DONE
            if not plan.is_done:
                self._write(client.cluster, plan)
        text = (
            f"{plan.records + plan.already:,} records of {self._options.table} are in topic "
            f"{self._options.to}: {plan.records:,} written now"
        )
        text += (
            ", with --again" if self._options.again else f", {plan.already:,} were there already"
        )
        data = {"records": plan.records, "already": plan.already, "topic": self._options.to}
        self._pipeline.progress.result(data, text)
        return DONE

    def _say_what_was_removed(self) -> None:
        """Say where the table begins, if retention has removed its oldest records."""
        kept = sorted(self._table.kept.items())
        if kept:
            places = ", ".join(f"partition {index} from offset {offset}" for index, offset in kept)
            self._pipeline.progress.say(
                f"retention has removed the oldest records of {self._options.table}, which has "
                f"{places} on",
                kept={str(index): offset for index, offset in kept},
            )

    # What there is to do

    def _check_columns(self) -> None:
        name, topic, columns = self._options.table, self._options.topic, self._table.columns
        if missing := [each for each in REQUIRED if each not in columns]:
            raise ConfigError(
                f"{name} has no column {' and '.join(missing)}; its columns are "
                f"{', '.join(columns)}"
            )
        for column, _ in self._limits:
            if column not in columns:
                raise ConfigError(f"{name} has no column {column} to select by")
        for option in ("keep_timestamps", "pace"):
            if getattr(self._options, option) and not self._table.has_times:
                use = "keep" if option == "keep_timestamps" else "set the pace"
                raise ConfigError(f"{name} has no column {TIMESTAMP} to {use}")
        if topic and "topic" not in columns and topic != _topic_named_by(name):
            raise UsageError(
                f"--topic {topic}: {name} has no column topic to choose by, so all its records are "
                "replayed; leave --topic out"
            )

    def _plan(self, cluster: Cluster) -> _Plan:
        spans = self._table.spans(RowFilter(self._limits))
        name = self._topic_name(spans)
        spans = [span for span in spans if span.topic in {None, name}]
        indexes = [span.partition for span in spans]
        self._check_partitions(cluster, indexes)
        replay = Replay(self._options.to, name, self._selection())
        lanes = find_lanes(cluster, replay, indexes, again=self._options.again) if indexes else {}
        plan = _Plan(replay, spans, lanes)
        if not plan.is_done:
            plan.rest = self._table.spans(self._rest(plan))
        plan.records = sum(span.records for span in plan.rest)
        plan.already = sum(span.records for span in spans) - plan.records
        return plan

    def _rest(self, plan: _Plan) -> RowFilter:
        starts = {index: offset for (_, index), offset in plan.start.items()}
        return RowFilter(self._limits, plan.replay.source, starts)

    def _topic_name(self, spans: Sequence[Span]) -> str:
        """The original topic of the records to replay."""
        requested: str | None = self._options.topic
        if "topic" not in self._table.columns:
            return _topic_named_by(self._options.table)
        names = sorted({span.topic or "" for span in spans})
        if requested is None and len(names) > 1:
            raise UsageError(f"the table has records of {', '.join(names)}: choose with --topic")
        if requested is not None and names and requested not in names:
            raise UsageError(f"--topic {requested}: the table has {', '.join(names)}")
        return requested or (names[0] if names else "")

    def _check_partitions(self, cluster: Cluster, indexes: Sequence[int]) -> None:
        """Raise ConfigError if the topic lacks a partition."""
        topic = self._options.to
        count = len(cluster.topic(topic).partitions)
        if indexes and max(indexes) >= count:
            raise ConfigError(
                f"topic {topic} has {count} partitions, and the table has records of partition "
                f"{max(indexes)}: create a topic with at least {max(indexes) + 1}"
            )

    def _selection(self) -> str:
        """Tells apart replays of which each begins with another record, or skips others."""
        options = self._options
        if options.start is None and options.filter is None:
            return ""
        text = json.dumps([options.start, options.filter])
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _print_plan(self, plan: _Plan) -> None:
        heads = ("PARTITION", "FIRST", "LAST", "NEXT")
        rows = []
        for span in plan.spans:
            name = (plan.replay.target, span.partition)
            is_done = plan.start[name] >= plan.end[name]
            rows.append(
                (span.partition, span.first, span.last, None if is_done else plan.start[name])
            )
        names = [head.lower() for head in heads]
        text = (
            f"{table(heads, rows)}\n{plan.records:,} records would be written to {self._options.to}"
        )
        # With --again, replayed records in the topic are not counted.
        text += ", with --again" if self._options.again else f", {plan.already:,} are there already"
        data: dict[str, object] = {
            "partitions": [dict(zip(names, row, strict=True)) for row in rows],
            "records": plan.records,
            "already": plan.already,
        }
        if self._options.filter is not None:
            text += "; --filter, which only Spark can apply, may leave some of them out"
        seconds = duration_s(plan.rest, self._options.rate, self._options.pace)
        if seconds is not None and plan.rest:
            text += f"\nit would take {duration_text(seconds)}"
            data["seconds"] = round(seconds, 1)
        self._pipeline.progress.result(data, text)

    # Writing

    def _write(self, cluster: Cluster, plan: _Plan) -> None:
        """Write range after range of offsets, one job of Spark each, when they are due."""
        rows = self._rows(plan)
        if not plan.records:
            return
        commit_lanes(cluster, plan.replay, plan.lanes.values())
        options, progress = self._options, self._pipeline.progress
        planned = (
            jobs(plan.start, plan.end, options.rate)
            if options.pace is None
            else paced_jobs(
                self._table, self._rest(plan), plan.rest, options.pace, plan.start, plan.end
            )
        )
        total, written = plan.records, 0
        seconds = duration_s(plan.rest, options.rate, options.pace) or 0
        progress.begin()
        started_ns = time.monotonic_ns()
        for job in planned:
            due_s = job.due_s or (written / options.rate if options.rate is not None else 0)
            while True:
                elapsed_s = (time.monotonic_ns() - started_ns) / _NS
                at_least_s = max(0, seconds - elapsed_s)
                progress.show(written, total=total, unit="records", at_least_s=at_least_s)
                if elapsed_s >= due_s:
                    break
                time.sleep(min(_PAUSE_S, due_s - elapsed_s))
            for report in self._run_job(rows, job, plan):
                written += report.records
                plan.lanes[report.partition] = reported_lane(plan.replay, report)
            commit_lanes(cluster, plan.replay, plan.lanes.values())
        plan.records = written
        progress.show(written, total=written, unit="records")

    def _rows(self, plan: _Plan) -> DataFrame:
        """The rows to replay; with --filter they are counted, too."""
        rows = _read(self._pipeline, self._table)
        for (column, is_end), limit in self._limits.items():
            value = f.lit(limit)
            rows = rows.where(f.col(column) < value if is_end else f.col(column) >= value)
        if "topic" in rows.columns:
            rows = rows.where(f.col("topic") == plan.replay.source)
        if self._options.filter is None:
            return rows
        rows = _filtered(rows, self._options.filter)
        is_left = _between(plan.start, plan.end)
        [counts] = rows.agg(f.count_if(is_left).alias("left"), f.count("*").alias("all")).collect()
        plan.records, plan.already = counts["left"], counts["all"] - counts["left"]
        return rows

    def _run_job(self, rows: DataFrame, job: Job, plan: _Plan) -> list[SparkRow]:
        records = _records(rows.where(_between(job.start, job.end)), plan.replay, self._options)
        # A single task for each partition keeps the order.
        parts = records.repartition(len(job.start), "partition")
        ordered = parts.sortWithinPartitions("partition", "offset")
        task = lane_task(self._writing, plan.lanes)
        reports: list[SparkRow] = ordered.mapInArrow(task, REPORT_SQL).collect()
        return reports


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


def _read(pipeline: Pipeline, replayed: ReplayTable) -> DataFrame:
    """The rows of a Delta or Iceberg table, or of Parquet files."""
    if replayed.format is not None:
        return read_table(pipeline.spark, replayed.directory)
    return pipeline.spark.read.parquet(replayed.directory)


def _filtered(rows: DataFrame, expression: str) -> DataFrame:
    """The rows for which an expression is true; raises UsageError unless it can be one."""
    try:
        filtered = rows.where(f.expr(expression))
        is_deterministic = filtered._jdf.queryExecution().analyzed().deterministic()
    except AnalysisException as error:
        reason = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
        raise UsageError(f"--filter {expression}: {reason}") from None
    if not is_deterministic:
        raise UsageError(
            f"--filter {expression}: a repeated task must get the same records, so the expression "
            "may not depend on chance"
        )
    return filtered


def _records(rows: DataFrame, replay: Replay, options: argparse.Namespace) -> DataFrame:
    """The rows as a task writes them, including the header with their old place."""
    place: list[Column | str] = [f.lit(replay.source).alias("topic"), "partition", "offset"]
    if replay.selection:
        place.append(f.lit(replay.selection).alias("selection"))
    position = f.to_json(f.struct(*place))
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
        columns += [f.col(each) for each in ("timestamp", OUT_OF_RANGE) if each in rows.columns]
    return rows.select(*columns, headers.alias("headers"))


def _between(start: Positions, end: Positions) -> Column:
    """The condition that a row is in the range of its partition."""
    condition = f.lit(False)
    for key, first in start.items():
        if first < end[key]:
            offset = f.col("offset")
            condition |= (f.col("partition") == key[1]) & (offset >= first) & (offset < end[key])
    return condition
