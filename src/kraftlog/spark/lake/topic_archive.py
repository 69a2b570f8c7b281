"""The archive of one topic: its table, its streaming query, and a commit for each batch.

Why each record is archived exactly once: a commit adds the files of a batch together with the
offsets after them, and a batch begins at the offsets of the newest commit. Spark's checkpoint only
proposes where a batch ends. So a batch that runs again finds its offsets in the table and writes
nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING

from kraftlog.client import groups
from kraftlog.client.fetched_batches import READ_COMMITTED
from kraftlog.errors import ConfigError, KraftlogError
from kraftlog.spark import positions
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import check_format, create_archive, open_archive
from kraftlog.spark.lake.checkpoint import committed_offsets
from kraftlog.spark.lake.decode import value_columns
from kraftlog.spark.lake.decode.base import ADD, FAIL
from kraftlog.spark.lake.decode.nested import merged_type, missing_fields
from kraftlog.spark.lake.decode.text import text_schema
from kraftlog.spark.lake.ranges import Outcome
from kraftlog.spark.lake.source import FORMAT, ArchiveSource
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.lake.table import LakeError, NewColumnsError
from kraftlog.spark.options import EARLIEST, LATEST, Limit
from kraftlog.types import NULL_UUID, uuid_text
from kraftlog.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName, Topic
    from kraftlog.spark.lake.decode import Decoding
    from kraftlog.spark.lake.table import ArchiveTable
    from kraftlog.spark.positions import Positions

#: How a query ends: after one batch, at the end of the log, or never.
ONCE, CAUGHT_UP, CONTINUOUS = "once", "caught-up", "continuous"


class ArchiveSettings(Value):
    directory: str
    #: The value of --format; empty if it was not given.
    table_format: str
    decoding: Decoding
    #: Where a new table begins, as a limit and as text, and whether --from was given.
    start: Limit
    start_text: str
    is_start_given: bool
    #: The limit of --until, if it was given.
    end: Limit | None
    #: How the query ends: `ONCE`, `CAUGHT_UP` or `CONTINUOUS`.
    mode: str
    #: The interval of batches, as Spark reads it.
    trigger: str
    batch_records: int
    by_date: bool
    allows_data_loss: bool
    #: The consumer group; `{topic}` in it stands for the topic's name.
    group: str


class AddedRows(Value):
    """What a batch has added to a partition, and the offset after it."""

    end: int
    rows: int = 0
    #: The number of dead letters.
    bad: int = 0
    #: The size of the files.
    bytes: int = 0


class BatchReport(Value):
    """A batch that was committed."""

    topic: str
    version: int
    rows: int
    #: The number of dead letters.
    bad: int
    #: The number of offsets that were deleted from the log before they were archived.
    lost: int
    #: The number of offsets that the table still lacks.
    lag: int
    #: What the batch has added to each partition that it has read.
    partitions: Mapping[int, AddedRows]
    #: The end of each partition's log after the commit.
    log_ends: Mapping[int, int]
    ignored: Mapping[str, int]
    #: Why the group's offsets could not be committed.
    group_error: str = ""


class TopicArchive:
    """Archives one topic: `prepare` checks and creates the table, `start` starts the query."""

    def __init__(
        self,
        topic: str,
        cluster: Cluster,
        settings: ArchiveSettings,
        report: Callable[[BatchReport], None],
        begin: Callable[[], None],
    ) -> None:
        layout.check_topic(topic)
        self.topic = topic
        self._cluster = cluster
        self._settings = settings
        self._report = report
        #: Called before the tasks of the first batch, so that rates leave out the start of Spark.
        self._begin: Callable[[], None] | None = begin
        self._lock: IO[str] | None = None
        self._table: ArchiveTable | None = None
        #: The format of the table, which `plan` finds out.
        self.table_format = ""
        self._ends: Positions | None = None
        #: The end of each partition's log when the archive was planned.
        self.log_ends: dict[int, int] = {}
        #: Notes for the user, printed before the query starts.
        self.notes: list[str] = []
        #: The exception of a failed batch, of which Spark keeps only the text.
        self.error: BaseException | None = None

    @property
    def table(self) -> ArchiveTable:
        assert self._table is not None
        return self._table

    @property
    def has_table(self) -> bool:
        return self._table is not None

    def plan(self) -> tuple[Positions, Positions]:
        """Check the table and the log; return where the archive would begin and end."""
        topic = self._described_topic()
        settings = self._settings
        self.table_format = check_format(settings.directory, self.topic, settings.table_format)
        self._table = open_archive(self._settings.directory, self.topic)
        names = [(self.topic, each.index) for each in topic.partitions]
        if self._table is not None:
            self._check_table(self._table.state, topic)
        start = self._start_offsets(names)
        latest = self._latest(names)
        self._check_log(start, latest)
        self.log_ends = {index: end for (_, index), end in latest.items()}
        self._check_checkpoint(start)
        if self._settings.end is not None:
            self._ends = self._resolved(names, self._settings.end)
            latest = {name: min(latest[name], self._ends[name]) for name in names}
        return start, latest

    def prepare(self) -> tuple[Positions, Positions]:
        """Lock, plan, create the table, and commit the dead letters of a killed run."""
        self._take_lock()
        start, end = self.plan()
        if self._table is None:
            self._table = self._create_table(start)
        self._table.prepare()
        self._table.commit_dead_letters()
        self._apply_schema(self._table)
        return start, end

    def start(self, spark: SparkSession, source_options: Mapping[str, str]) -> StreamingQuery:
        spark.dataSource.register(ArchiveSource)
        settings = self._settings
        decoding = dict(settings.decoding.__dict__)
        registry_access = decoding.pop("registry_access")
        reader = spark.readStream.format(FORMAT).options(**source_options)
        reader = (
            reader.option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", settings.batch_records)
            .option("archive.directory", settings.directory)
            .option("archive.decoding", json.dumps(decoding))
            .option("archive.registrySecrets", json.dumps(registry_access))
            .option("archive.once", str(settings.mode == ONCE).lower())
            .option("archive.allowDataLoss", str(settings.allows_data_loss).lower())
        )
        if self._ends is not None:
            reader = reader.option("archive.end", json.dumps(positions.nested(self._ends)))
        checkpoint = layout.checkpoint_path(settings.directory, self.topic)
        writer = (
            reader.load()
            .writeStream.queryName(f"archive {self.topic}")
            .option("checkpointLocation", checkpoint)
            .foreachBatch(self._process_batch)
        )
        if settings.mode == CONTINUOUS:
            writer = writer.trigger(processingTime=settings.trigger)
        else:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # Before the query

    def _take_lock(self) -> None:
        path = layout.lock_path(self._settings.directory, self.topic)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed at the end of the run
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise LakeError(
                f"another process archives topic {self.topic} into {self._settings.directory}: "
                "wait until it ends, or stop it"
            ) from None
        self._lock = file

    def _described_topic(self) -> Topic:
        self._cluster.drop_cache()
        return self._cluster.topic(self.topic)

    def _check_table(self, state: ArchiveState, topic: Topic) -> None:
        self._check_identity(state, topic)
        if state.decode != self._settings.decoding.kind:
            raise LakeError(
                f"{self.topic}: the table has records with --decode {state.decode}: continue with "
                f"that, or archive with --decode {self._settings.decoding.kind} into another "
                "directory"
            )
        settings = self._settings
        path = layout.table_path(settings.directory, self.topic)
        if settings.by_date and not self.table.is_by_date:
            raise LakeError(
                f"{path} exists and is not partitioned by date: leave --partition-by out to go "
                "on with it, or archive into another directory"
            )
        first_start = state.begun_at
        if settings.is_start_given and not first_start:
            note = (
                f"{self.topic}: the table exists and is continued at its end: --from has no effect"
            )
            self.notes[:] = [note]  # only once, although `prepare` plans again
        if settings.is_start_given and first_start and first_start != settings.start_text:
            alternative = (
                f"delete {path}, which has no records yet"
                if self.table.is_new
                else "archive into another directory"
            )
            raise LakeError(
                f"{path} exists and was begun with --from {first_start}, so --from "
                f"{settings.start_text} can't be followed: leave --from out to continue where the "
                f"table ends, or {alternative}"
            )

    def _check_checkpoint(self, start: Positions) -> None:
        """Spark would not see that the table lacks offsets which the checkpoint has as archived."""
        directory = self._settings.directory
        for index, offset in sorted(committed_offsets(directory, self.topic).items()):
            end = start.get((self.topic, index), offset)
            if offset > end:
                raise LakeError(
                    f"{self.topic}-{index}: the checkpoint is newer than the table, which was set "
                    f"back or deleted: offsets {end} to {offset - 1} are archived by the one, not "
                    f"by the other: delete {layout.checkpoint_path(directory, self.topic)}; the "
                    "next run continues at the end of the table"
                )

    def _check_identity(self, state: ArchiveState, topic: Topic) -> None:
        current_id = _id_text(topic)
        if state.topic_id and current_id and state.topic_id != current_id:
            raise LakeError(
                f"topic {self.topic} was deleted and created again: the table has records of topic "
                f"id {state.topic_id}, the topic now has id {current_id}: archive it into another "
                f"directory, or move {layout.table_path(self._settings.directory, self.topic)} and "
                f"{os.path.dirname(layout.checkpoint_path(self._settings.directory, self.topic))} "
                "away"
            )

    def _start_offsets(self, names: list[PartitionName]) -> Positions:
        if self._table is None:
            return self._resolved(names, self._settings.start)
        archived_offsets = self._table.state.offsets
        new_partitions = [name for name in names if name[1] not in archived_offsets]
        archived = {(self.topic, index): offset for index, offset in archived_offsets.items()}
        return archived | self._earliest(new_partitions)

    def _check_log(self, start: Positions, latest: Positions) -> None:
        """Check that the log still has the records that follow the table's."""
        log_start = self._earliest(list(latest))
        for name, end in latest.items():
            partition = f"{name[0]}-{name[1]}"
            if end < start[name] and self._table is None:
                raise ConfigError(
                    f"--from: {partition} has offsets {log_start[name]} to {end}, and "
                    f"{start[name]} was given: give an offset in this range"
                )
            if end < start[name]:
                raise LakeError(
                    f"{partition}: the log ends at offset {end}, but the table has the records "
                    f"before {start[name]}: the cluster has lost some, and new records may get "
                    "their offsets"
                )
            if log_start[name] > start[name] and not self._settings.allows_data_loss:
                raise LakeError(
                    f"{partition}: offsets {start[name]} to {log_start[name] - 1} were deleted "
                    "from the log before they were archived "
                    f"({log_start[name] - start[name]} offsets): "
                    "--allow-data-loss continues after them"
                )

    def _create_table(self, start: Positions) -> ArchiveTable:
        state = ArchiveState(
            topic=self.topic,
            topic_id=_id_text(self._described_topic()),
            decode=self._settings.decoding.kind,
            offsets={index: offset for (_, index), offset in start.items()},
            begun_at=self._settings.start_text,
        )
        settings = self._settings
        return create_archive(
            self.table_format, settings.directory, state, self._schema(), by_date=settings.by_date
        )

    def _schema(self) -> pa.Schema:
        kind = self._settings.decoding.kind
        if kind == "raw":
            return layout.RAW
        if kind == "string":
            return text_schema(layout.RAW)
        schema = layout.RAW.remove(layout.RAW.get_field_index("value"))
        for column in value_columns(self._settings.decoding):
            schema = schema.append(column)
        return schema

    def _apply_schema(self, table: ArchiveTable) -> None:
        """Add, ignore or refuse columns of --schema that the table lacks, by the rule for drift."""
        decoding = self._settings.decoding
        schema_columns = {each.name: each for each in value_columns(decoding)}
        table_schema = table.schema
        unknown: list[pa.Field] = []
        names: list[str] = []
        for name, column in schema_columns.items():
            if name not in table_schema.names:
                unknown.append(column)
                names.append(name)
                continue
            kind = merged_type(table_schema.field(name).type, column.type)
            if kind is None:
                raise LakeError(
                    f"{self.topic}: --schema has {column.type} for column {name}, the table "
                    f"{table_schema.field(name).type}: a column's type can't change"
                )
            if kind != table_schema.field(name).type:
                unknown.append(column.with_type(kind))
                names += missing_fields(name, table_schema.field(name).type, kind)
        if not unknown:
            return
        text = ", ".join(names)
        if decoding.on_drift == FAIL:
            raise LakeError(
                f"{self.topic}: --schema has columns that the table does not have: {text}: "
                "--on-drift add adds them, --on-drift ignore leaves them out"
            )
        if decoding.on_drift == ADD:
            table.add_columns(unknown)
            self.notes.append(f"{self.topic}: new columns: {text}")
        else:
            self.notes.append(f"{self.topic}: columns of --schema left out: {text}")

    # The log

    def _resolved(self, names: list[PartitionName], limit: Limit) -> Positions:
        return positions.resolved(self._cluster, names, limit, READ_COMMITTED)

    def _latest(self, names: list[PartitionName]) -> Positions:
        return self._resolved(names, Limit(everywhere=LATEST))

    def _earliest(self, names: list[PartitionName]) -> Positions:
        return self._resolved(names, Limit(everywhere=EARLIEST))

    # A batch

    def _process_batch(self, rows: DataFrame, batch: int) -> None:
        try:
            if self._begin is not None:
                self._begin()
                self._begin = None
            try:
                report = self._commit(_outcomes(rows), batch)
            except NewColumnsError:
                report = self._commit(_outcomes(rows), batch)
        except BaseException as error:
            self.error = error
            raise
        if report is not None:
            self._report(report)

    def _commit(self, outcomes: list[Outcome], batch: int) -> BatchReport | None:
        """Commit the files that the tasks wrote; None if there was no task."""
        self.table.refresh()
        self._check_identity(self.table.state, self._described_topic())
        refused = [each.refused for each in outcomes if each.refused]
        if refused:
            raise LakeError(f"{self.topic}: {refused[0]}")
        query = self._query_id()
        if not outcomes:
            return None
        if self.table.has_batch(query, batch):
            checkpoint = layout.checkpoint_path(self._settings.directory, self.topic)
            raise LakeError(
                f"{self.topic}: the checkpoint is older than the table, which has batch {batch}: "
                f"delete {checkpoint}; the next run continues at the end of the table"
            )
        state = self._next_state(outcomes, query, batch)
        self.table.commit(state, [file for each in outcomes for file in each.files])
        log_ends = self._log_ends()
        return BatchReport(
            self.topic,
            self.table.version,
            sum(each.rows for each in outcomes),
            sum(each.bad for each in outcomes),
            sum(end - start for ranges in state.lost.values() for start, end in ranges),
            sum(max(0, end - state.offsets[index]) for index, end in log_ends.items()),
            _added_rows(outcomes),
            log_ends,
            state.ignored,
            self._commit_group_offsets(),
        )

    def _next_state(self, outcomes: list[Outcome], query: str, batch: int) -> ArchiveState:
        previous = self.table.state
        ends = dict(previous.offsets)
        ranges: dict[int, tuple[int, int]] = {}
        ignored: dict[str, int] = {}
        for outcome in sorted(outcomes, key=lambda outcome: (outcome.partition, outcome.start)):
            expected = ends.get(outcome.partition, outcome.start)
            if outcome.start != expected:
                raise LakeError(
                    f"{self.topic}-{outcome.partition}: a task read from offset {outcome.start}, "
                    f"but the table ends at {expected}: another process archives the topic, too"
                )
            ends[outcome.partition] = outcome.end
            first = ranges.get(outcome.partition, (outcome.start, 0))[0]
            ranges[outcome.partition] = (first, outcome.end)
            for name, count in outcome.ignored.items():
                ignored[name] = ignored.get(name, 0) + count
        return ArchiveState(
            topic=previous.topic,
            topic_id=previous.topic_id,
            decode=previous.decode,
            offsets=ends,
            ranges=ranges,
            lost={
                index: [lost for each in outcomes if each.partition == index for lost in each.lost]
                for index in sorted({each.partition for each in outcomes if each.lost})
            },
            query=query,
            batch=batch,
            rows=previous.rows + sum(each.rows for each in outcomes),
            bad=previous.bad + sum(each.bad for each in outcomes),
            dead_letters=tuple(file for each in outcomes for file in each.dead_letters),
            ignored=ignored,
            begun_at=previous.begun_at,
            start=previous.start,
            kept=previous.kept,
            removed=previous.removed,
        )

    def _query_id(self) -> str:
        """The id of the query, which Spark keeps in the checkpoint."""
        checkpoint = layout.checkpoint_path(self._settings.directory, self.topic)
        with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as file:
            query_id: str = json.load(file)["id"]
        return query_id

    def _log_ends(self) -> dict[int, int]:
        latest = self._latest([(self.topic, index) for index in self.table.state.offsets])
        return {index: end for (_, index), end in latest.items()}

    def _commit_group_offsets(self) -> str:
        """Commit the group's offsets, for tools that show lag; return the error, if any."""
        group = self._settings.group.replace("{topic}", self.topic)
        offsets = {(self.topic, index): end for index, end in self.table.state.offsets.items()}
        try:
            groups.commit(self._cluster, group, offsets)
        except KraftlogError as error:
            return str(error)
        return ""


def _outcomes(rows: DataFrame) -> list[Outcome]:
    """Run the tasks of a batch, also if they have run before."""
    return [Outcome.read(json.loads(row.outcome)) for row in rows.collect()]


def _added_rows(outcomes: Sequence[Outcome]) -> dict[int, AddedRows]:
    added: dict[int, AddedRows] = {}
    for each in outcomes:
        part = added.setdefault(each.partition, AddedRows(each.end))
        part.end = max(part.end, each.end)
        part.rows += each.rows
        part.bad += each.bad
        part.bytes += sum(file.size for file in (*each.files, *each.dead_letters))
    return added


def _id_text(topic: Topic) -> str:
    return "" if topic.id == NULL_UUID else uuid_text(topic.id)
