"""`kraftlog pipeline archive`: topics as Delta or Iceberg tables, every record exactly once."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kraftlog.client.arguments import time_ms
from kraftlog.client.deadline import Deadline, wall_ms
from kraftlog.client.properties import read_text
from kraftlog.client.text_table import table
from kraftlog.errors import ConfigError, KraftlogError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import DELTA, ICEBERG
from kraftlog.spark.lake.compaction import compact
from kraftlog.spark.lake.decode import CONFLUENT, DECODINGS, Decoding
from kraftlog.spark.lake.decode.base import ADD, FAIL, IGNORE
from kraftlog.spark.lake.decode.registry_access import registry_access
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.retention import expire
from kraftlog.spark.lake.table import LakeError
from kraftlog.spark.lake.topic_archive import (
    CAUGHT_UP,
    CONTINUOUS,
    ONCE,
    ArchiveSettings,
    TopicArchive,
)
from kraftlog.spark.lake_check.findings import counted
from kraftlog.spark.options import EARLIEST, LATEST, PATTERN, Limit, Options, Selection
from kraftlog.spark.pipelines.archive_metrics import ArchiveMetrics
from kraftlog.spark.pipelines.common import DONE, FINDINGS, parser, run_pipeline, stop_in_thread
from kraftlog.spark.pipelines.directories import check_writable
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.pipelines.metrics_output import metrics_output
from kraftlog.spark.positions import nested, selected

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
_DURATION = re.compile(r"(?P<number>\d{1,12})(?P<unit>[smhd])")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: With --continuous: how long after which to look for old records, as Kafka's
#: log.retention.check.interval.ms.
_EXPIRE_S = 300
#: The most queries that run at the same time, except with --continuous.
_MAX_RUNNING = 4
#: How long to wait for the end of one query before looking at the next.
_POLL_S = 0.2
#: How long to ask whether a topic was deleted, after it could not be archived.
_DELETION_S = 10
#: With --topics-pattern and --continuous: how long after which to look for new topics.
_LOOK_S = 10
_RETENTION_ICEBERG = (
    "--retention removes records of Delta tables only: the archive adds to an Iceberg table, and "
    "doesn't delete from it"
)
_COMPACT_ICEBERG = (
    "--compact merges files of Delta tables only: PyIceberg can't replace files by one commit that "
    "leaves their rows as they are; merge those of Iceberg tables with Spark's procedure "
    "rewrite_data_files"
)
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
        "Archive topics as Delta or Iceberg tables, every record exactly once, up to the log's "
        "current end.\nA run continues where the last one ended. Exit code 0: done; 1: failed; 2: "
        "invalid command line;\n3: refused, as records would be lost or mixed up.",
        "orders --to lake -b localhost:9092",
    )
    add = command_line.add_argument
    add("topics", nargs="*", metavar="TOPIC", help="topics, one table for each")
    add(
        "--topics-pattern",
        metavar="REGEX",
        help="also each topic whose whole name matches; with --continuous those that are created "
        "later, too. A refused topic does not stop the others",
    )
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
    command_line.add_argument(
        "--metrics",
        metavar="FILE|HOST:PORT",
        help="write metrics in Prometheus's text format to a file, or serve them over HTTP",
    )
    _add_table_options(command_line)
    return command_line


def _add_table_options(command_line: argparse.ArgumentParser) -> None:
    group = command_line.add_argument_group("tables")
    group.add_argument(
        "--format",
        dest="table_format",
        choices=(DELTA, ICEBERG),
        default="",
        help="the format of new tables; default: delta. An existing table keeps its own",
    )
    group.add_argument(
        "--decode",
        default="raw",
        metavar="KIND",
        help=f"{', '.join(DECODINGS)}; default: raw, as bytes",
    )
    group.add_argument("--schema", metavar="FILE", help="JSON Schema or Avro schema of the values")
    group.add_argument(
        "--registry",
        metavar="DIR|URL,...",
        help="schemas of avro-confluent and json-confluent: a schema registry, with credentials in "
        "the file of --command-config, or a directory of files ID.avsc or ID.json",
    )
    group.add_argument(
        "--on-drift",
        choices=(FAIL, IGNORE, ADD),
        default=FAIL,
        help="for fields without a column: stop (default), leave them out, or add columns",
    )
    group.add_argument("--partition-by", choices=("date",), help="a directory for each date (UTC)")
    group.add_argument(
        "--retention",
        metavar="TIME",
        help="remove whole files, from the beginning of each partition on, whose records are all "
        "older than this, such as 30d or 12h",
    )
    group.add_argument(
        "--compact",
        action="store_true",
        help="at the end, merge small files of Delta tables into larger ones",
    )


def _check_decoding(text: str) -> None:
    if "protobuf" in text:
        raise UsageError(f"--decode {text}: Protobuf can't be decoded: archive the values as raw")
    if text not in DECODINGS:
        raise UsageError(f"--decode {text}: expected one of {', '.join(DECODINGS)}")


class _Archive:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._options = pipeline.options
        self._settings = _settings(pipeline)
        self._retention_ms = _retention_ms(pipeline.options.retention)
        #: With --continuous: when to look for old records of each topic again.
        self._next_expiry: dict[str, Deadline] = {}
        self._rows = 0
        self._reports: dict[str, list[BatchReport]] = {}
        self._lags: dict[str, int] = {}
        self._has_begun = False
        self._clients: dict[str, Client] = {}
        #: The archive of each topic that was not refused.
        self._archives: dict[str, TopicArchive] = {}
        #: None without --metrics.
        self._metrics: ArchiveMetrics | None = None
        #: The topics that were refused, if others go on.
        self._refused: set[str] = set()
        #: How often the query of each topic has been started.
        self._starts: dict[str, int] = {}

    def run(self) -> int:
        try:
            check_writable(self._options.directory)
            # All topics are checked before any table is created.
            plans = {topic: self._plan(topic) for topic in self._topics()}
            if self._options.dry_run:
                self._print_plan([plan for plan in plans.values() if plan is not None])
                return FINDINGS if self._refused else DONE
            if self._options.metrics:
                output = metrics_output(self._options.metrics)
                say = self._pipeline.progress.say
                self._metrics = ArchiveMetrics(output, self._pipeline.client, say)
                self._metrics.start()
            for topic in plans:
                self._prepare(topic)
            self._run_queries()
            self._print_result()
        except LakeError as error:
            _print_error(error)
            return FINDINGS
        finally:
            if self._metrics is not None:
                self._metrics.close()
            for archive in self._archives.values():
                archive.close()
            for client in self._clients.values():
                client.close()
        return FINDINGS if self._refused else DONE

    def _topics(self) -> list[str]:
        """The topics of the command line, and those that match --topics-pattern now."""
        topics = dict.fromkeys(self._options.topics)
        pattern = self._options.topics_pattern
        if pattern:
            with self._pipeline.client() as client:
                names = selected(client.cluster, Selection(PATTERN, pattern=pattern))
            topics |= dict.fromkeys(name for name, _ in names if name not in layout.PRIVATE)
        if not topics and not self._is_watching:
            raise ConfigError(f"--topics-pattern {pattern}: the name of no topic matches")
        return list(topics)

    @property
    def _is_watching(self) -> bool:
        """Whether topics that are created later are archived, too."""
        options = self._options
        return bool(options.topics_pattern and options.continuous and not options.dry_run)

    def _plan(self, topic: str) -> tuple[Positions, Positions] | None:
        """Check a topic and its table; None if it is refused and others go on."""
        client = self._clients[topic] = self._pipeline.client()
        archive = TopicArchive(topic, client.cluster, self._settings, self._report, self._begin)
        self._archives[topic] = archive
        try:
            plan = archive.plan()
            if archive.table_format == ICEBERG:
                self._check_iceberg()
            return plan
        except LakeError as error:
            self._refuse(topic, error)
        except KraftlogError:
            refusal = self._deletion(topic)
            if refusal is None:
                raise
            self._refuse(topic, refusal)
        finally:
            client.cluster.close()  # it connects again for a batch
        return None

    def _prepare(self, topic: str) -> None:
        """Create the table of a topic that was not refused, or open it."""
        archive = self._archives.get(topic)
        if archive is None:
            return
        try:
            start, end = archive.prepare()
        except LakeError as error:
            self._refuse(topic, error)
            return
        except KraftlogError:
            refusal = self._deletion(topic)
            if refusal is None:
                raise
            self._refuse(topic, refusal)
            return
        finally:
            self._clients[topic].cluster.close()
        self._lags[topic] = _offset_count(start, end)
        if self._metrics is not None:
            offsets = {index: offset for (_, index), offset in start.items()}
            committed_ms = 0 if archive.table.is_new else archive.table.committed_ms
            self._metrics.begin(topic, offsets, archive.log_ends, committed_ms)
        for note in archive.notes:
            self._pipeline.progress.say(note)

    def _refuse(self, topic: str, error: LakeError) -> None:
        """Go on without a topic, if topics are chosen by a pattern."""
        if not self._options.topics_pattern:
            raise error
        _print_error(error)
        if self._metrics is not None:
            self._metrics.refuse(topic)
        self._refused.add(topic)
        self._archives.pop(topic).close()

    def _deletion(self, topic: str) -> LakeError | None:
        """The refusal of a topic that does not exist any more, if topics are chosen by a pattern.

        A topic may be deleted at any time, and the others are archived further.
        """
        if not self._options.topics_pattern:
            return None
        try:
            topics = self._clients[topic].cluster.all_topics(Deadline(_DELETION_S))
        except KraftlogError:
            return None  # it is not known
        if topic in {each.name for each in topics}:
            return None
        archive = self._archives[topic]
        ends = archive.table.state.offsets.items() if archive.has_table else ()
        text = ", ".join(f"offset {end} of partition {index}" for index, end in sorted(ends))
        return LakeError(f"topic {topic} was deleted; its table ends at {text or 'no offset'}")

    def _run_queries(self) -> None:
        """Run a query for each topic; an error other than a refusal stops all of them."""
        waiting = list(self._archives.values())
        running: list[tuple[TopicArchive, StreamingQuery]] = []
        spark = self._pipeline.spark
        next_look = Deadline(_LOOK_S)
        try:
            while waiting or running or self._is_watching:
                if self._is_watching and next_look.is_over:
                    waiting += self._created_later()
                    next_look = Deadline(_LOOK_S)
                while waiting and (self._options.continuous or len(running) < _MAX_RUNNING):
                    archive = waiting.pop(0)
                    query = archive.start(spark, self._pipeline.source_options)
                    running.append((archive, query))
                for archive, query in list(running):
                    try:
                        has_ended = self._has_ended(archive, query)
                    except Exception as error:
                        if not self._may_start_again(archive, error):
                            raise
                        running.remove((archive, query))
                        waiting.insert(0, archive)
                        continue
                    if has_ended:
                        running.remove((archive, query))
                if not running:
                    next_look.pause(_POLL_S)
        finally:
            for _, query in running:
                stop_in_thread(query.stop)

    def _created_later(self) -> list[TopicArchive]:
        known = self._archives.keys() | self._refused
        topics = [topic for topic in self._topics() if topic not in known]
        for topic in topics:
            if self._plan(topic) is not None:
                self._prepare(topic)
        return [self._archives[topic] for topic in topics if topic in self._archives]

    def _has_ended(self, archive: TopicArchive, query: StreamingQuery) -> bool:
        """Wait briefly for the end of a query; if it failed, raise the batch's error, not Spark's.

        At its end the table is compacted, if that is wanted.
        """
        try:
            if not query.awaitTermination(_POLL_S):
                return False
        except Exception:
            is_refused = isinstance(archive.error, LakeError)
            refusal = archive.error if is_refused else self._deletion(archive.topic)
            if isinstance(refusal, LakeError):
                self._refuse(archive.topic, refusal)
                return True
            if archive.error is not None:
                raise archive.error from None
            raise
        self._expire(archive)
        self._compact(archive)
        return True

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

    def _check_iceberg(self) -> None:
        """Refuse what only Delta tables can have."""
        if self._options.compact:
            raise ConfigError(_COMPACT_ICEBERG)
        if self._retention_ms is not None:
            raise ConfigError(_RETENTION_ICEBERG)

    def _expire(self, archive: TopicArchive, *, is_dry: bool = False) -> None:
        """Remove the table's oldest records; if that fails, a later attempt does it."""
        if self._retention_ms is None:
            return
        delta = archive.table
        assert isinstance(delta, DeltaArchive)
        self._next_expiry[archive.topic] = Deadline(_EXPIRE_S)
        try:
            expired = expire(delta, wall_ms() - self._retention_ms, is_dry=is_dry)
        except LakeError as error:
            self._pipeline.progress.say(f"{archive.topic}: nothing was removed: {error}")
            return
        verb = "would be removed" if is_dry else "removed"
        if expired.files:
            what = f"{counted(expired.rows, 'row')} in {counted(expired.files, 'file')}"
            self._pipeline.progress.say(
                f"{archive.topic}: {what} {verb}, older than {self._options.retention}",
                removed_rows=expired.rows,
                kept={str(index): offset for index, offset in sorted(expired.kept.items())},
            )
        if expired.unknown:
            self._pipeline.progress.say(
                f"{archive.topic}: nothing was removed: "
                f"{counted(expired.unknown, 'file')} of another program without statistics, or "
                "with records of several partitions"
            )

    def _compact(self, archive: TopicArchive) -> None:
        if not self._options.compact:
            return
        delta = archive.table
        assert isinstance(delta, DeltaArchive)
        before, after = compact(delta)
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
        if self._metrics is not None:
            self._metrics.commit(batch)
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
        due = self._next_expiry.get(batch.topic)
        if self._options.continuous and (due is None or due.is_over):
            self._expire(self._archives[batch.topic])

    def _print_plan(self, plans: Sequence[tuple[Positions, Positions]]) -> None:
        for note in [note for archive in self._archives.values() for note in archive.notes]:
            self._pipeline.progress.say(note)
        for archive in self._archives.values():
            if archive.has_table:
                self._expire(archive, is_dry=True)
        rows = []
        for start, end in plans:
            rows += [
                (*name, start[name], end[name], _offset_count(start, end, name)) for name in end
            ]
        heads = ("topic", "partition", "from", "to", "offsets")
        data = [dict(zip(heads, row, strict=True)) for row in rows]
        self._pipeline.progress.result({"plan": data}, table(heads, rows))

    def _print_result(self) -> None:
        heads = ("topic", "rows", "dead letters", "lost", "lag", "table", "version")
        rows = []
        for archive in self._archives.values():
            batches = self._reports.get(archive.topic, [])
            sums = [
                sum(getattr(each, name) for each in batches) for name in ("rows", "bad", "lost")
            ]
            lag = self._lags[archive.topic]
            rows.append((archive.topic, *sums, lag, archive.table.path, archive.table.version))
        data = [dict(zip(heads, row, strict=True)) for row in rows]
        self._pipeline.progress.result({"topics": data}, table(heads, rows))


def _print_error(error: LakeError) -> None:
    print(f"kraftlog pipeline archive: {error}", file=sys.stderr, flush=True)


def _settings(pipeline: Pipeline) -> ArchiveSettings:
    options = pipeline.options
    decode = options.decode
    _check_decoding(decode)
    if not options.topics and not options.topics_pattern:
        raise UsageError("expected topics, or --topics-pattern")
    try:
        re.compile(options.topics_pattern or "")
    except re.error as error:
        raise UsageError(f"--topics-pattern {options.topics_pattern}: {error}") from None
    for name, used_by in (
        ("schema", tuple(each for each in DECODINGS if each.startswith(("json", "avro")))),
        ("registry", CONFLUENT),
    ):
        if getattr(options, name) and decode not in used_by:
            raise UsageError(f"--{name} is for --decode {' or '.join(used_by)}")
    if decode in {"json", "avro"} and not options.schema:
        raise UsageError(f"--decode {decode} needs --schema FILE")
    if decode in CONFLUENT and not options.registry:
        raise UsageError(f"--decode {decode} needs --registry DIR|URL")
    if options.compact and options.table_format == ICEBERG:
        raise UsageError(_COMPACT_ICEBERG)
    if options.retention and options.table_format == ICEBERG:
        raise UsageError(_RETENTION_ICEBERG)
    if options.max_records_per_batch < 1:
        raise UsageError("--max-records-per-batch: expected at least 1")
    if options.continuous and options.end:
        raise UsageError("--until cannot be combined with --continuous")
    if not _INTERVAL.fullmatch(options.trigger):
        raise UsageError(
            f"--trigger {options.trigger}: expected a time such as '10 seconds' or '1 minute'"
        )
    schema = read_text(options.schema) if options.schema else ""
    registry, access = registry_access(options.registry or "", pipeline.properties)
    start = _limit("--from", options.start or "earliest")
    return ArchiveSettings(
        directory=options.directory,
        table_format=options.table_format,
        decoding=Decoding(decode, schema, registry, options.on_drift, access),
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


def _retention_ms(text: str | None) -> int | None:
    """Parse --retention; None if it is not given."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or not int(match["number"]):
        raise UsageError(f"--retention {text}: expected a time such as 30d, 12h, 90m or 45s")
    return int(match["number"]) * _UNITS_MS[match["unit"]]


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
