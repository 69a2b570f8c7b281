"""`kraftlog pipeline verify`: compares Delta tables of topics with the log, offset by offset."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from kraftlog.client import configs, offsets
from kraftlog.client.fetched_batches import READ_COMMITTED, READ_UNCOMMITTED
from kraftlog.client.text_table import table
from kraftlog.config.keys import TOPIC
from kraftlog.errors import ConfigError
from kraftlog.spark.lake_check.compare import ComparedTopic, compare
from kraftlog.spark.lake_check.plan import ranges, tasks
from kraftlog.spark.lake_check.report import Report, not_compared_line, partition_report
from kraftlog.spark.lake_check.tables import OFFSET, PARTITION, open_table, table_directories
from kraftlog.spark.pipelines.common import DONE, FINDINGS, Pipeline, parser, run_pipeline
from kraftlog.types import uuid_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.compare import RangeResult
    from kraftlog.spark.lake_check.plan import Range
    from kraftlog.spark.lake_check.tables import LakeTable

_ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
_DEAD_LETTERS = "_dead_letters"


def run(arguments: Sequence[str]) -> int:
    command_line = parser(
        "verify",
        "Compare Delta tables of topics with the log: every offset once, none missing, the same "
        "bytes.\nExit code 0: equal; 1: could not compare; 3: differences.",
        "lake -b localhost:9092",
    )
    command_line.add_argument(
        "directory", metavar="DIR", help="a Delta table, or a directory with one for each topic"
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
    options = command_line.parse_args(arguments)
    return run_pipeline("verify", options, lambda pipeline: _Verification(pipeline).run())


class _Verification:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        self._tables: list[LakeTable] = []
        self._topics: dict[str, ComparedTopic] = {}
        self._ranges: list[Range] = []

    def run(self) -> int:
        with self._pipeline.client() as client:
            for topic, directory in self._directories():
                self._add(client, topic, directory)
        if self._options.dry_run:
            self._print_plan()
            return DONE
        report = self._report(self._compare_all())
        self._pipeline.progress.result(report.data(), report.text())
        return FINDINGS if report.findings else DONE

    def _directories(self) -> list[tuple[str, str]]:
        """The topics to compare and the directories of their tables."""
        topics = self._options.topic
        directories = table_directories(self._options.directory)
        if directories == [os.path.abspath(self._options.directory)]:
            if topics and len(topics) > 1:
                raise ConfigError(f"{directories[0]} is one table: expected one --topic")
            return [(topics[0] if topics else os.path.basename(directories[0]), directories[0])]
        paths = {os.path.basename(path): path for path in directories}
        paths.pop(_DEAD_LETTERS, None)
        unknown = sorted(set(topics or ()) - set(paths))
        if unknown:
            raise ConfigError(f"{self._options.directory} has no table {', '.join(unknown)}")
        return [(topic, path) for topic, path in paths.items() if not topics or topic in topics]

    def _add(self, client: Client, name: str, directory: str) -> None:
        """Open a table and look up the log of its topic."""
        lake_table = open_table(DeltaTable(directory), name, directory)
        default = "read_committed" if lake_table.archived else "read_uncommitted"
        level = _ISOLATION[self._options.isolation_level or default]
        cluster = client.cluster
        topic = cluster.topic(name)
        if lake_table.topic_id and any(topic.id) and lake_table.topic_id != uuid_text(topic.id):
            raise ConfigError(
                f"{directory} has records of a topic {name} with id {lake_table.topic_id}; the "
                f"topic of this name now has id {uuid_text(topic.id)}: it was deleted and created "
                "again"
            )
        names = [(name, partition.index) for partition in topic.partitions]
        starts = offsets.find(cluster, dict.fromkeys(names, offsets.EARLIEST))
        ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST), level)
        settings = configs.describe(cluster, TOPIC, [name])[name]
        policy = next(each.value for each in settings if each.name == "cleanup.policy")
        self._topics[name] = ComparedTopic(
            servers=self._options.bootstrap_server,
            timeout_s=cluster.timeout_s,
            isolation_level=level,
            columns=lake_table.compared,
            is_compacted="compact" in (policy or ""),
            log={each[1]: (starts[each].offset, ends[each].offset) for each in names},
            dead_letters=_dead_letters(os.path.dirname(directory), name),
        )
        self._tables.append(lake_table)
        self._ranges += ranges(name, lake_table.spans, lake_table.archived)

    def _compare_all(self) -> list[RangeResult]:
        """Compare all ranges in a Spark job."""
        topics = self._topics
        work = tasks(self._ranges)

        def compare_all(task_ranges: list[Range]) -> list[RangeResult]:
            return [compare(each, topics[each.topic]) for each in task_ranges]

        def job() -> list[RangeResult]:
            context = self._pipeline.spark.sparkContext
            done = context.parallelize(work, max(len(work), 1)).flatMap(compare_all)
            results: list[RangeResult] = done.collect()
            return results

        records = sum(each.records for each in self._ranges)
        return self._pipeline.run_job(job, items=records)

    def _report(self, results: Sequence[RangeResult]) -> Report:
        by_partition: dict[tuple[str, int], list[RangeResult]] = {}
        for result in results:
            by_partition.setdefault((result.topic, result.partition), []).append(result)
        reports = []
        for (topic, partition), results_of_partition in sorted(by_partition.items()):
            ranges_of_partition = [each for each in self._ranges if each[:2] == (topic, partition)]
            archived = (ranges_of_partition[0].start, ranges_of_partition[-1].end)
            log_end = self._topics[topic].log.get(partition, (0, 0))[1]
            reports.append(partition_report(results_of_partition, archived, log_end))
        directory = os.path.abspath(self._options.directory)
        return Report(directory, tuple(self._tables), tuple(reports))

    def _print_plan(self) -> None:
        rows = []
        for lake_table in self._tables:
            ranges_of_table = [
                offset_range
                for offset_range in self._ranges
                if offset_range.topic == lake_table.topic
            ]
            files = len({span.path for span in lake_table.spans})
            partitions = len({offset_range.partition for offset_range in ranges_of_table})
            records = sum(offset_range.records for offset_range in ranges_of_table)
            compared = ",".join((OFFSET, *lake_table.compared))
            rows.append(
                (lake_table.topic, lake_table.version, partitions, files, records, compared)
            )
        heads = ("TOPIC", "VERSION", "PARTITIONS", "FILES", "RECORDS", "COMPARED")
        lines = [
            table(heads, rows),
            *(not_compared_line(t) for t in self._tables if t.not_compared),
        ]
        names = [head.lower() for head in heads]
        data = {"tables": [dict(zip(names, row, strict=True)) for row in rows]}
        self._pipeline.progress.result(data, "\n".join(lines))


def _dead_letters(lake: str, topic: str) -> Mapping[int, Numbers]:
    """The offsets of the archive's dead letters, ascending, by partition."""
    path = os.path.join(lake, _DEAD_LETTERS)
    if not DeltaTable.is_deltatable(path):
        return {}
    rows = DeltaTable(path).to_pyarrow_table(
        filters=[("topic", "=", topic)], columns=[PARTITION, OFFSET]
    )
    by_partition = {}
    for partition in pc.unique(rows.column(PARTITION)).to_pylist():
        rows_of_partition = rows.filter(
            pc.equal(rows.column(PARTITION), pa.scalar(partition, pa.int32()))
        )
        by_partition[partition] = np.sort(rows_of_partition.column(OFFSET).to_numpy())
    return by_partition
