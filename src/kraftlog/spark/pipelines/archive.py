"""`kraftlog pipeline archive`: topics as Delta tables, every record exactly once."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kraftlog.client.arguments import time_ms
from kraftlog.client.properties import read_text
from kraftlog.client.text_table import table
from kraftlog.spark.lake.compaction import compact
from kraftlog.spark.lake.decode import DECODINGS, Decoding
from kraftlog.spark.lake.decode.base import ADD, FAIL, IGNORE
from kraftlog.spark.lake.table import LakeError
from kraftlog.spark.lake.topic_archive import (
    CAUGHT_UP,
    CONTINUOUS,
    ONCE,
    ArchiveSettings,
    TopicArchive,
)
from kraftlog.spark.options import EARLIEST, LATEST, Limit, Options
from kraftlog.spark.pipelines.common import DONE, FINDINGS, parser, run_pipeline, stop_in_thread
from kraftlog.spark.pipelines.directories import check_writable
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.positions import nested

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pyspark.sql.streaming import StreamingQuery

    from kraftlog.client.client import Client
    from kraftlog.spark.lake.topic_archive import BatchReport
    from kraftlog.spark.pipelines.common import Pipeline
    from kraftlog.spark.positions import Positions

#: The intervals that Spark accepts for a trigger.
_INTERVAL = re.compile(
    r"\s*(?:\d+\s+(?:millisecond|second|minute|hour|day|week)s?\s*)+", re.IGNORECASE
)
#: The most queries that run at the same time, except with --continuous.
_MAX_RUNNING = 4
#: How long to wait for the end of one query before looking at the next.
_POLL_S = 0.2
#: What Spark reports if a Python process has not connected to it within ten seconds, which can't be
#: configured, as on a machine that is very busy; and how often a query is started for all that.
_WORKER_START_FAILED = "Python worker failed to connect back"
_MAX_STARTS = 10


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_pipeline("archive", options, lambda pipeline: _Archive(pipeline).run())


def _parser() -> argparse.ArgumentParser:
    command_line = parser(
        "archive",
        "Archive topics as Delta tables, every record exactly once, up to the current end of the "
        "log.\nA run continues where the last one ended. Exit code 0: done; 1: failed; 2: invalid "
        "command line;\n3: refused, as records would be lost or mixed up.",
        "orders --to lake -b localhost:9092",
    )
    add = command_line.add_argument
    add("topics", nargs="+", metavar="TOPIC", help="topics, one table for each")
    add("--to", dest="directory", required=True, metavar="DIR", help="the directory of the tables")
    group = command_line.add_argument_group("what is read")
    ends = group.add_mutually_exclusive_group()
    ends.add_argument("--once", action="store_true", help="one batch, then end")
    ends.add_argument("--continuous", action="store_true", help="run until stopped")
    group.add_argument(
        "--trigger",
        default="10 seconds",
        metavar="TIME",
        help="with --continuous: the interval of batches; default: 10 seconds",
    )
    group.add_argument(
        "--max-records-per-batch",
        type=int,
        default=5_000_000,
        metavar="N",
        help="records of each topic in a batch; a killed run repeats at most one batch; "
        "default: 5,000,000",
    )
    where = "earliest, latest, a time such as 2026-11-23T00:00 (UTC), or JSON of offsets"
    group.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        help=f"where a new table begins: {where}; default: earliest. An existing table is "
        "continued at its end, and a --from other than its first one is refused",
    )
    group.add_argument("--until", dest="end", metavar="WHERE", help=f"where to end: {where}")
    group.add_argument(
        "--allow-data-loss",
        action="store_true",
        help="continue after records that were deleted from the log before they were archived",
    )
    group.add_argument(
        "--group",
        default="kraftlog-archive-{topic}",
        metavar="GROUP",
        help="commit offsets to this consumer group, for tools that show lag; "
        "default: kraftlog-archive-{topic}",
    )
    group = command_line.add_argument_group("tables")
    group.add_argument("--decode", choices=DECODINGS, default="raw", help="default: raw, as bytes")
    group.add_argument("--schema", metavar="FILE", help="JSON Schema or Avro schema of the values")
    group.add_argument(
        "--registry",
        metavar="DIR|URL",
        help="schemas of avro-confluent: files ID.avsc, or a schema registry",
    )
    group.add_argument(
        "--on-drift",
        choices=(FAIL, IGNORE, ADD),
        default=FAIL,
        help="for fields without a column: stop (default), leave them out, or add columns",
    )
    group.add_argument("--partition-by", choices=("date",), help="a directory for each date (UTC)")
    group.add_argument(
        "--compact", action="store_true", help="at the end, merge small files into larger ones"
    )
    return command_line


class _Archive:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        self._settings = _settings(pipeline.options)
        self._rows = 0
        self._reports: dict[str, list[BatchReport]] = {}
        self._lags: dict[str, int] = {}
        self._has_begun = False
        #: How often the query of each topic has been started.
        self._starts: dict[str, int] = {}

    def run(self) -> int:
        clients: list[Client] = []
        archives: list[TopicArchive] = []
        try:
            for topic in dict.fromkeys(self._options.topics):
                clients.append(self._pipeline.client())
                archives.append(
                    TopicArchive(
                        topic, clients[-1].cluster, self._settings, self._report, self._begin
                    )
                )
            check_writable(self._options.directory)
            # All topics are checked before any table is created.
            plans = [archive.plan() for archive in archives]
            if self._options.dry_run:
                self._print_plan(archives, plans)
                return DONE
            for archive in archives:
                start, end = archive.prepare()
                self._lags[archive.topic] = _offset_count(start, end)
                for note in archive.notes:
                    self._pipeline.progress.say(note)
            self._run_queries(archives)
            self._print_result(archives)
        except LakeError as error:
            print(f"kraftlog pipeline archive: {error}", file=sys.stderr, flush=True)
            return FINDINGS
        finally:
            for archive in archives:
                archive.close()
            for client in clients:
                client.close()
        return DONE

    def _run_queries(self, archives: Sequence[TopicArchive]) -> None:
        """Run a query for each topic; the first error stops all of them."""
        waiting = list(archives)
        max_running = len(waiting) if self._options.continuous else _MAX_RUNNING
        running: list[tuple[TopicArchive, StreamingQuery]] = []
        spark = self._pipeline.spark
        try:
            while waiting or running:
                while waiting and len(running) < max_running:
                    archive = waiting.pop(0)
                    query = archive.start(spark, self._pipeline.source_options)
                    running.append((archive, query))
                for archive, query in list(running):
                    try:
                        has_ended = _has_ended(archive, query)
                    except Exception as error:
                        if not self._may_start_again(archive, error):
                            raise
                        running.remove((archive, query))
                        waiting.insert(0, archive)
                        continue
                    if has_ended:
                        running.remove((archive, query))
                        self._compact(archive)
        finally:
            for _, query in running:
                stop_in_thread(query.stop)

    def _may_start_again(self, archive: TopicArchive, error: Exception) -> bool:
        """Whether a query has failed only because its Python process was too slow to start."""
        starts = self._starts[archive.topic] = self._starts.get(archive.topic, 0) + 1
        if _WORKER_START_FAILED not in str(error) or starts == _MAX_STARTS:
            return False
        self._pipeline.progress.say(
            f"{archive.topic}: the machine is so busy that Spark's Python process did not start in "
            "time: starting it again"
        )
        return True

    def _compact(self, archive: TopicArchive) -> None:
        if not self._options.compact:
            return
        before, after = compact(archive.table)
        if before:
            self._pipeline.progress.say(f"{archive.topic}: {before} files merged into {after}")

    def _begin(self) -> None:
        """Start the clock for rates when the first batch begins, after the start of Spark."""
        if not self._has_begun:
            self._has_begun = True
            self._pipeline.progress.begin()

    def _report(self, batch: BatchReport) -> None:
        """Print the progress after a batch; each query calls this from its own thread."""
        progress = self._pipeline.progress
        self._reports.setdefault(batch.topic, []).append(batch)
        self._lags[batch.topic] = batch.lag
        self._rows += batch.rows + batch.bad
        progress.show(self._rows, lag=sum(self._lags.values()), topic=batch.topic)
        if batch.bad:
            progress.say(f"{batch.topic}: {batch.bad:,} dead letters", dead_letters=batch.bad)
        if batch.lost:
            progress.say(
                f"{batch.topic}: {batch.lost:,} offsets were deleted from the log before they were "
                "archived",
                lost=batch.lost,
            )
        if batch.ignored:
            names = ", ".join(f"{name} ({n:,})" for name, n in sorted(batch.ignored.items()))
            progress.say(f"{batch.topic}: fields without a column: {names}", ignored=batch.ignored)
        if batch.group_error:
            progress.say(
                f"{batch.topic}: the group's offsets were not committed: {batch.group_error}"
            )

    def _print_plan(
        self, archives: Sequence[TopicArchive], plans: Sequence[tuple[Positions, Positions]]
    ) -> None:
        for note in [note for archive in archives for note in archive.notes]:
            self._pipeline.progress.say(note)
        rows = []
        for start, end in plans:
            rows += [
                (*name, start[name], end[name], _offset_count(start, end, name)) for name in end
            ]
        heads = ("topic", "partition", "from", "to", "offsets")
        data = [dict(zip(heads, row, strict=True)) for row in rows]
        self._pipeline.progress.result({"plan": data}, table(heads, rows))

    def _print_result(self, archives: Sequence[TopicArchive]) -> None:
        heads = ("topic", "rows", "dead letters", "lost", "lag", "table", "version")
        rows = []
        for archive in archives:
            batches = self._reports.get(archive.topic, [])
            sums = [
                sum(getattr(each, name) for each in batches) for name in ("rows", "bad", "lost")
            ]
            lag = self._lags[archive.topic]
            rows.append((archive.topic, *sums, lag, archive.table.path, archive.table.version))
        data = [dict(zip(heads, row, strict=True)) for row in rows]
        self._pipeline.progress.result({"topics": data}, table(heads, rows))


def _has_ended(archive: TopicArchive, query: StreamingQuery) -> bool:
    """Wait briefly for the end of a query; if it failed, raise the batch's error, not Spark's."""
    try:
        return bool(query.awaitTermination(_POLL_S))
    except Exception:
        if archive.error is not None:
            raise archive.error from None
        raise


def _settings(options: argparse.Namespace) -> ArchiveSettings:
    decode = options.decode
    for name, used_by in (
        ("schema", ("json", "avro", "avro-confluent")),
        ("registry", ("avro-confluent",)),
    ):
        if getattr(options, name) and decode not in used_by:
            raise UsageError(f"--{name} is for --decode {' or '.join(used_by)}")
    if decode in {"json", "avro"} and not options.schema:
        raise UsageError(f"--decode {decode} needs --schema FILE")
    if decode == "avro-confluent" and not options.registry:
        raise UsageError("--decode avro-confluent needs --registry DIR|URL")
    if options.max_records_per_batch < 1:
        raise UsageError("--max-records-per-batch: expected at least 1")
    if options.continuous and options.end:
        raise UsageError("--until cannot be combined with --continuous")
    if not _INTERVAL.fullmatch(options.trigger):
        raise UsageError(
            f"--trigger {options.trigger}: expected a time such as '10 seconds' or '1 minute'"
        )
    schema = read_text(options.schema) if options.schema else ""
    start = _limit("--from", options.start or "earliest")
    return ArchiveSettings(
        directory=options.directory,
        decoding=Decoding(decode, schema, options.registry or "", options.on_drift),
        start=start,
        start_text=_limit_text(start),
        is_start_given=options.start is not None,
        end=None if options.end is None else _limit("--until", options.end),
        mode=ONCE if options.once else CONTINUOUS if options.continuous else CAUGHT_UP,
        trigger=options.trigger,
        batch_records=options.max_records_per_batch,
        by_date=options.partition_by == "date",
        allows_data_loss=options.allow_data_loss,
        group=options.group,
    )


def _limit(option: str, text: str) -> Limit:
    """Parse where to start or to end."""
    if text in {"earliest", "latest"}:
        return Limit(everywhere=EARLIEST if text == "earliest" else LATEST)
    if text.startswith("{"):
        return Limit(offsets=Options({option: text}).by_partition(option))
    try:
        return Limit(time_ms=time_ms(text))
    except ValueError:
        raise UsageError(
            f"{option} {text}: expected earliest, latest, a time such as 2026-11-23T00:00Z, or "
            'JSON such as {"orders": {"0": 23}}'
        ) from None


def _limit_text(limit: Limit) -> str:
    """A limit as text, which is equal for equal limits however the user wrote them."""
    if limit.everywhere is not None:
        return "earliest" if limit.everywhere == EARLIEST else "latest"
    if limit.time_ms is not None:
        return datetime.fromtimestamp(limit.time_ms / 1000, UTC).isoformat()
    return json.dumps(nested(dict(limit.offsets or ())), sort_keys=True)


def _offset_count(start: Positions, end: Positions, *names: tuple[str, int]) -> int:
    return sum(max(0, end[name] - start[name]) for name in names or end)
