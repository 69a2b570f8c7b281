"""`kraftlog pipeline verify`: Delta tables of topics against the log, offset by offset."""

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
from kraftlog.spark.lake_check.compare import Topic, compare
from kraftlog.spark.lake_check.plan import ranges, tasks
from kraftlog.spark.lake_check.report import Report, not_compared, partition_report
from kraftlog.spark.lake_check.tables import OFFSET, PARTITION, open_table, table_directories
from kraftlog.spark.pipelines.common import DONE, FOUND, Pipeline, parser, run_pipeline
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
    made = parser(
        "verify",
        "Compare Delta tables of topics with the log: every offset once, none missing, the same "
        "bytes.\nExit code 0: equal; 1: could not compare; 3: differences.",
        "lake -b localhost:9092",
    )
    made.add_argument(
        "directory", metavar="DIR", help="a Delta table, or a directory with one for each topic"
    )
    made.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this topic's table; repeatable. With a single table: the topic to compare it "
        "with, if the directory has another name",
    )
    made.add_argument(
        "--isolation-level",
        choices=sorted(_ISOLATION),
        help="read_committed: the tables have no records of aborted transactions; default: that "
        "for tables that kraftlog archived, read_uncommitted for others",
    )
    options = made.parse_args(arguments)
    return run_pipeline("verify", options, lambda pipeline: _Verification(pipeline).run())


class _Verification:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        self._tables: list[LakeTable] = []
        self._topics: dict[str, Topic] = {}
        self._ranges: list[Range] = []

    def run(self) -> int:
        with self._pipeline.client() as client:
            for topic, directory in self._directories():
                self._add(client, topic, directory)
        if self._options.dry_run:
            self._print_plan()
            return DONE
        report = self._report(self._compared())
        self._pipeline.progress.result(report.data(), report.text())
        return FOUND if report.findings else DONE

    def _directories(self) -> list[tuple[str, str]]:
        """The topics and their tables."""
        wanted = self._options.topic
        found = table_directories(self._options.directory)
        if found == [os.path.abspath(self._options.directory)]:
            if wanted and len(wanted) > 1:
                raise ConfigError(f"{found[0]} is one table: expected one --topic")
            return [(wanted[0] if wanted else os.path.basename(found[0]), found[0])]
        names = {os.path.basename(path): path for path in found}
        names.pop(_DEAD_LETTERS, None)
        unknown = sorted(set(wanted or ()) - set(names))
        if unknown:
            raise ConfigError(f"{self._options.directory} has no table {', '.join(unknown)}")
        return [(name, path) for name, path in names.items() if not wanted or name in wanted]

    def _add(self, client: Client, name: str, directory: str) -> None:
        """Read a table, and what the log has of its topic."""
        opened = open_table(DeltaTable(directory), name, directory)
        usual = "read_committed" if opened.archived else "read_uncommitted"
        level = _ISOLATION[self._options.isolation_level or usual]
        cluster = client.cluster
        topic = cluster.topic(name)
        if opened.topic_id and any(topic.id) and opened.topic_id != uuid_text(topic.id):
            raise ConfigError(
                f"{directory} has records of a topic {name} with id {opened.topic_id}; the topic "
                f"of this name now has id {uuid_text(topic.id)}: it was deleted and created again"
            )
        names = [(name, each.index) for each in topic.partitions]
        starts = offsets.find(cluster, dict.fromkeys(names, offsets.EARLIEST))
        ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST), level)
        settings = configs.describe(cluster, TOPIC, [name])[name]
        policy = next(each.value for each in settings if each.name == "cleanup.policy")
        self._topics[name] = Topic(
            servers=self._options.bootstrap_server,
            timeout_s=cluster.timeout_s,
            isolation_level=level,
            columns=opened.compared,
            is_compacted="compact" in (policy or ""),
            log={part[1]: (starts[part].offset, ends[part].offset) for part in names},
            dead_letters=_dead_letters(os.path.dirname(directory), name),
        )
        self._tables.append(opened)
        self._ranges += ranges(name, opened.spans, opened.archived)

    def _compared(self) -> list[RangeResult]:
        """Compare all ranges in tasks of Spark."""
        topics = self._topics
        work = tasks(self._ranges)

        def compare_all(found: list[Range]) -> list[RangeResult]:
            return [compare(each, topics[each.topic]) for each in found]

        def job() -> list[RangeResult]:
            context = self._pipeline.spark.sparkContext
            done = context.parallelize(work, max(len(work), 1)).flatMap(compare_all)
            found: list[RangeResult] = done.collect()
            return found

        records = sum(each.records for each in self._ranges)
        return self._pipeline.run_job(job, items=records)

    def _report(self, results: Sequence[RangeResult]) -> Report:
        by_partition: dict[tuple[str, int], list[RangeResult]] = {}
        for result in results:
            by_partition.setdefault((result.topic, result.partition), []).append(result)
        parts = []
        for (topic, partition), found in sorted(by_partition.items()):
            own = [each for each in self._ranges if each[:2] == (topic, partition)]
            archived = (own[0].start, own[-1].end)
            log_end = self._topics[topic].log.get(partition, (0, 0))[1]
            parts.append(partition_report(found, archived, log_end))
        directory = os.path.abspath(self._options.directory)
        return Report(directory, tuple(self._tables), tuple(parts))

    def _print_plan(self) -> None:
        rows = []
        for each in self._tables:
            found = [part for part in self._ranges if part.topic == each.topic]
            files = len({span.path for span in each.spans})
            partitions = len({part.partition for part in found})
            records = sum(part.records for part in found)
            compared = ",".join((OFFSET, *each.compared))
            rows.append((each.topic, each.version, partitions, files, records, compared))
        heads = ("TOPIC", "VERSION", "PARTITIONS", "FILES", "RECORDS", "COMPARED")
        lines = [table(heads, rows), *(not_compared(t) for t in self._tables if t.not_compared)]
        names = [head.lower() for head in heads]
        data = {"tables": [dict(zip(names, row, strict=True)) for row in rows]}
        self._pipeline.progress.result(data, "\n".join(lines))


def _dead_letters(lake: str, topic: str) -> Mapping[int, Numbers]:
    """By partition: the offsets of the archive's dead letters."""
    path = os.path.join(lake, _DEAD_LETTERS)
    if not DeltaTable.is_deltatable(path):
        return {}
    rows = DeltaTable(path).to_pyarrow_table(
        filters=[("topic", "=", topic)], columns=[PARTITION, OFFSET]
    )
    found = {}
    for partition in pc.unique(rows.column(PARTITION)).to_pylist():
        own = rows.filter(pc.equal(rows.column(PARTITION), pa.scalar(partition, pa.int32())))
        found[partition] = np.sort(own.column(OFFSET).to_numpy())
    return found
