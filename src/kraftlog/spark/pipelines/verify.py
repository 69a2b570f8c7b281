"""`kraftlog pipeline verify`: compares tables of topics with the log, offset by offset."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kraftlog.client import configs, offsets
from kraftlog.client.deadline import Deadline, wall_ms
from kraftlog.client.fetched_batches import READ_COMMITTED, READ_UNCOMMITTED
from kraftlog.client.text_table import table
from kraftlog.config.keys import TOPIC
from kraftlog.errors import ConfigError
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.checkpoint import committed_offsets
from kraftlog.spark.lake_check.check import Known, check
from kraftlog.spark.lake_check.compare import ComparedTopic, compare
from kraftlog.spark.lake_check.dead_letters import read_dead_letters
from kraftlog.spark.lake_check.lake_files import OFFSET
from kraftlog.spark.lake_check.metrics import metrics_text
from kraftlog.spark.lake_check.opening import open_table, table_directories
from kraftlog.spark.lake_check.plan import tasks
from kraftlog.spark.lake_check.report import not_compared_line
from kraftlog.spark.lake_check.sample import Sample
from kraftlog.spark.lake_check.statement import statement, statement_text
from kraftlog.spark.lake_check.table_check import TableCheck, rolled_back
from kraftlog.spark.lake_check.tables import DamagedTableError
from kraftlog.spark.pipelines.common import DONE, FINDINGS, Pipeline, parser, run_pipeline
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.pipelines.metrics_output import metrics_output
from kraftlog.types import NULL_UUID, uuid_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import Topic
    from kraftlog.spark.lake_check.compare import RangeResult
    from kraftlog.spark.lake_check.findings import Finding
    from kraftlog.spark.lake_check.plan import Range
    from kraftlog.spark.lake_check.report import Report
    from kraftlog.spark.lake_check.tables import LakeTable
    from kraftlog.spark.pipelines.metrics_output import MetricsOutput

_ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
#: So many random bits that nobody guesses which offsets a sample has.
_SEED_BITS = 63


def run(arguments: Sequence[str]) -> int:
    options = _command_line().parse_args(arguments)
    return run_pipeline("verify", options, lambda pipeline: _Verification(pipeline).run())


def _command_line() -> argparse.ArgumentParser:
    command_line = parser(
        "verify",
        "Compare Delta or Iceberg tables of topics with the log: every offset once, none missing, "
        "the same bytes.\nExit code 0: equal; 1: could not compare; 3: differences.",
        "lake -b localhost:9092",
    )
    command_line.add_argument(
        "directory", metavar="DIR", help="a table, or a directory with one for each topic"
    )
    command_line.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this topic's table; repeatable. If DIR is a single table: the topic to compare "
        "it with; default: the name of DIR",
    )
    command_line.add_argument(
        "--isolation-level",
        choices=sorted(_ISOLATION),
        help="read_committed: the tables have no records of aborted transactions; default: "
        "read_committed for tables that kraftlog archived, read_uncommitted for others",
    )
    _add_sampling_and_rounds(command_line)
    return command_line


def _add_sampling_and_rounds(command_line: argparse.ArgumentParser) -> None:
    command_line.add_argument(
        "--statement",
        metavar="FILE",
        help="also write a statement about the comparison, with SHA-256 of each partition, as JSON",
    )
    command_line.add_argument(
        "--sample",
        type=_count,
        metavar="N",
        help="compare only the ranges that have N offsets chosen at random, and say how much may "
        "be wrong nevertheless; 3,000: at most 0.1 %% of the offsets",
    )
    command_line.add_argument(
        "--seed", type=int, metavar="N", help="repeat the sample that was printed with this seed"
    )
    command_line.add_argument(
        "--continuous",
        action="store_true",
        help="compare again and again what is new or has changed, until there is a finding",
    )
    command_line.add_argument(
        "--every",
        type=_count,
        default=60,
        metavar="SECONDS",
        help="with --continuous: from the end of a comparison to the next one; default: 60",
    )
    command_line.add_argument(
        "--metrics",
        metavar="FILE|HOST:PORT",
        help="write the result as metrics in Prometheus's text format to a file after each "
        "comparison, or serve it over HTTP",
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


class _Verification:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        self._tables: list[TableCheck] = []
        #: Findings about tables that cannot be opened.
        self._damage: list[Finding] = []
        self._topic_ids: dict[str, str] = {}
        self._cluster_id = ""
        self._known = Known()
        #: None without --metrics.
        self._metrics: MetricsOutput | None = None

    def run(self) -> int:
        options = self._options
        if options.seed is not None and options.sample is None:
            raise UsageError("--seed is for --sample")
        if options.statement is not None and options.continuous:
            raise UsageError("--statement is about one comparison, not for --continuous")
        if options.metrics is None or options.dry_run:
            return self._rounds()
        self._metrics = metrics_output(options.metrics)
        if self._metrics.url:
            self._pipeline.progress.say(f"metrics at {self._metrics.url}")
        with closing(self._metrics):
            return self._rounds()

    def _rounds(self) -> int:
        options = self._options
        while True:
            self._open_tables()
            if options.dry_run:
                self._print_plan()
                return DONE
            report = self._compare()
            if report.findings:
                return FINDINGS
            if not options.continuous:
                return DONE
            Deadline(options.every).pause(options.every)

    def _open_tables(self) -> None:
        self._tables, self._damage = [], []
        with self._pipeline.client() as client:
            for topic, directory in self._directories():
                self._add(client, topic, directory)
            self._cluster_id = client.cluster.cluster_id or ""

    def _compare(self) -> Report:
        started_ms = wall_ms()
        seed = self._options.seed
        if seed is None:
            seed = secrets.randbits(_SEED_BITS)
        report = check(
            os.path.abspath(self._options.directory),
            self._tables,
            self._compare_ranges,
            self._damage,
            sample=Sample(self._options.sample, seed) if self._options.sample else None,
            known=self._known,
        )
        ended_ms = wall_ms()
        data, text = report.data(), report.text()
        if self._options.statement is not None:
            now = datetime.fromtimestamp(ended_ms // 1000, UTC).isoformat()
            made = statement(report, self._cluster_id, self._topic_ids, now)
            with open(self._options.statement, "w", encoding="utf-8") as file:
                file.write(json.dumps(made, indent=1, sort_keys=True) + "\n")
            data["statement"] = made
            text = f"{statement_text(made)}\n{text}"
        if self._metrics is not None:
            took_s = (ended_ms - started_ms) / 1000
            self._metrics.publish(metrics_text(report, ended_ms / 1000, took_s))
        self._pipeline.progress.result(data, text)
        return report

    def _directories(self) -> list[tuple[str, str]]:
        """The topics to compare and the directories of their tables."""
        topics = self._options.topic
        directories = table_directories(self._options.directory)
        if directories == [os.path.abspath(self._options.directory)]:
            if topics and len(topics) > 1:
                raise ConfigError(f"{directories[0]} is one table: expected one --topic")
            return [(topics[0] if topics else os.path.basename(directories[0]), directories[0])]
        paths = {os.path.basename(path): path for path in directories}
        paths.pop(layout.DEAD_LETTERS, None)
        unknown = sorted(set(topics or ()) - set(paths))
        if unknown:
            raise ConfigError(f"{self._options.directory} has no table {', '.join(unknown)}")
        return [(topic, path) for topic, path in paths.items() if not topics or topic in topics]

    def _add(self, client: Client, name: str, directory: str) -> None:
        """Open a table and look up the log of its topic."""
        lake = os.path.dirname(directory)
        committed = committed_offsets(lake, name)  # before the table, which may grow meanwhile
        try:
            lake_table = open_table(directory, name, committed)
        except DamagedTableError as error:
            self._damage += error.findings
            return
        if lake_table.is_archive:
            self._damage += rolled_back(name, lake_table, committed)
        topic = client.cluster.topic(name)
        self._topic_ids[name] = "" if topic.id == NULL_UUID else uuid_text(topic.id)
        topic_id = self._topic_ids[name]
        if lake_table.topic_id and topic_id and lake_table.topic_id != topic_id:
            raise ConfigError(
                f"{directory} has records of a topic {name} with id {lake_table.topic_id}; the "
                f"topic of this name now has id {topic_id}: it was deleted and created again"
            )
        self._tables.append(TableCheck(lake_table, self._compared(client, topic, lake_table, lake)))

    def _compared(
        self, client: Client, topic: Topic, lake_table: LakeTable, lake: str
    ) -> ComparedTopic:
        cluster, name = client.cluster, lake_table.topic
        default = "read_committed" if lake_table.is_archive else "read_uncommitted"
        level = _ISOLATION[self._options.isolation_level or default]
        names = [(name, partition.index) for partition in topic.partitions]
        starts = offsets.find(cluster, dict.fromkeys(names, offsets.EARLIEST))
        ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST), level)
        settings = configs.describe(cluster, TOPIC, [name])[name]
        policy = next(each.value for each in settings if each.name == "cleanup.policy")
        return ComparedTopic(
            servers=self._options.bootstrap_server,
            timeout_s=cluster.timeout_s,
            security=cluster.security,
            isolation_level=level,
            columns=lake_table.compared,
            is_compacted="compact" in (policy or ""),
            log={each[1]: (starts[each].offset, ends[each].offset) for each in names},
            dead_letters=read_dead_letters(lake, name),
            is_partitioned=lake_table.is_partitioned,
            deleted=lake_table.deleted,
            column_ids=lake_table.column_ids,
            is_digested=self._options.statement is not None,
        )

    def _compare_ranges(self, due: Sequence[Range]) -> list[RangeResult]:
        """Compare ranges in a Spark job; here, and at once, if they would be a single task."""
        topics = {each.table.topic: each.topic for each in self._tables}
        work = tasks(due)
        records = sum(each.records for each in due)

        def compare_all(task_ranges: Sequence[Range]) -> list[RangeResult]:
            return [compare(each, topics[each.topic]) for each in task_ranges]

        if len(work) <= 1:
            try:
                return compare_all(due)
            finally:
                for topic in topics.values():  # here, no Spark worker needs the connections again
                    cluster_of(topic.servers, topic.timeout_s, security=topic.security).close()

        def job() -> list[RangeResult]:
            context = self._pipeline.spark.sparkContext
            done = context.parallelize(work, len(work)).flatMap(compare_all)
            results: list[RangeResult] = done.collect()
            return results

        return self._pipeline.run_job(job, items=records)

    def _print_plan(self) -> None:
        rows = []
        for each in self._tables:
            lake_table = each.table
            files = len({span.path for span in lake_table.spans})
            partitions = len({offset_range.partition for offset_range in each.ranges})
            records = sum(offset_range.records for offset_range in each.ranges)
            compared = ",".join((OFFSET, *lake_table.compared))
            rows.append(
                (lake_table.topic, lake_table.version, partitions, files, records, compared)
            )
        heads = ("TOPIC", "VERSION", "PARTITIONS", "FILES", "RECORDS", "COMPARED")
        lines = [
            table(heads, rows),
            *(not_compared_line(each.table) for each in self._tables if each.table.not_compared),
        ]
        names = [head.lower() for head in heads]
        data = {"tables": [dict(zip(names, row, strict=True)) for row in rows]}
        self._pipeline.progress.result(data, "\n".join(lines))
