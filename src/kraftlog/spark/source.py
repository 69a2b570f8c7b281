"""The data source `kraftlog`: Spark calls it to plan and to read topics, in batches or streams.

The plan is made in one process at the driver. `read` runs in the workers, on a pickled copy of the
reader, and yields Arrow record batches.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kraftlog.client import offsets
from kraftlog.client.deadline import Deadline
from kraftlog.client.range_reader import FETCH_BYTES
from kraftlog.errors import ConfigError
from kraftlog.spark import data_loss, option_names, positions
from kraftlog.spark.brief_errors import KraftlogSparkError, brief_errors
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.option_names import SINK, SOURCE
from kraftlog.spark.options import EARLIEST, LATEST, PATTERN, Limit, source_options
from kraftlog.spark.range_rows import range_rows
from kraftlog.spark.ranges import OffsetRange, split
from kraftlog.spark.schema import check_schema, spark_schema
from kraftlog.spark.worker_memory import freeze_modules
from kraftlog.types import NULL_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName
    from kraftlog.spark.options import SourceOptions
    from kraftlog.spark.positions import Nested, Positions
    from kraftlog.spark.sink import BatchWriter, StreamWriter
    from kraftlog.types import Uuid


class KraftlogDataSource(DataSource):
    """`spark.read.format("kraftlog")` and `spark.readStream.format("kraftlog")`."""

    @classmethod
    def name(cls) -> str:
        return "kraftlog"

    def schema(self) -> str:
        """The columns; Spark calls this in `load()`, so that wrong options are refused there."""
        with brief_errors(self._servers):
            options = source_options(self.options, is_stream=None)
        option_names.report(SOURCE.ignored(self.options))
        return spark_schema(with_headers=options.includes_headers)

    def reader(self, schema: StructType) -> BatchReader:
        with brief_errors(self._servers):
            reader = BatchReader(self._checked_options(schema, is_stream=False))
        option_names.report(option_names.ignored_in_batches(self.options))
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            with brief_errors(self._servers):
                return StreamReader(self._checked_options(schema, is_stream=True))
        except KraftlogSparkError as error:
            return RefusedStream(error)

    # The sink is imported on use, as the process that plans a stream does not need it.

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from kraftlog.spark.sink import BatchWriter, checked_options

        with brief_errors(self._servers):
            writer = BatchWriter(checked_options(self.options, schema, overwrite=overwrite))
        option_names.report(SINK.ignored(self.options))
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from kraftlog.spark.sink import StreamWriter, checked_options

        with brief_errors(self._servers):
            options = checked_options(self.options, schema, overwrite=overwrite)
        return StreamWriter(options, SINK.ignored(self.options))

    def _checked_options(self, schema: StructType, *, is_stream: bool) -> SourceOptions:
        options = source_options(self.options, is_stream=is_stream)
        check_schema(schema, with_headers=options.includes_headers)
        return options

    @property
    def _servers(self) -> str:
        return str(self.options.get("kafka.bootstrap.servers", ""))


class TaskRange(InputPartition):
    """The range that a task reads, with the topic's id, as another topic may get the same name."""

    def __init__(self, offset_range: OffsetRange, topic_id: Uuid = NULL_UUID) -> None:
        super().__init__(offset_range)
        self.range = offset_range
        self.topic_id = topic_id


class Planner:
    """The base of both readers: looks up offsets, plans tasks, and reads the range of a task."""

    _is_stream = False

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._has_said_nothing_matches = False

    @property
    def _cluster(self) -> Cluster:
        options = self._options
        return cluster_of(options.servers, options.timeout_s, options.client_id, options.security)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskRange):
            return  # the empty partition that Spark passes if `partitions` returns none
        with brief_errors(self._options.servers):
            yield from range_rows(
                self._cluster,
                partition.range,
                partition.topic_id,
                self._after_loss,
                isolation_level=self._options.isolation_level,
                with_headers=self._options.includes_headers,
                fetch_bytes=self._options.fetch_bytes or FETCH_BYTES,
            )
        freeze_modules()

    def _after_loss(self, offset_range: OffsetRange, position: int) -> OffsetRange:
        """Raise or report a loss within a range; return the part that can still be read."""
        log_start = self._offsets([offset_range.name], EARLIEST)[offset_range.name]
        log_end = self._offsets([offset_range.name], LATEST)[offset_range.name]
        if log_start > position:
            loss = data_loss.deletion_text(
                offset_range.name, position, min(log_start, offset_range.end), log_end
            )
        else:
            loss = data_loss.truncation_text(offset_range.name, position, log_end)
        data_loss.raise_or_report([loss], is_fatal=self._options.fails_on_data_loss)
        return OffsetRange(
            *offset_range.name, max(log_start, position), min(log_end, offset_range.end)
        )

    def _tasks(self, start: Positions, end: Positions) -> list[TaskRange]:
        ranges = [OffsetRange(*name, start[name], end[name]) for name in end if name in start]
        return [
            TaskRange(each, self._cluster.topic(each.topic).id)
            for each in split(
                ranges,
                min_partitions=self._options.min_partitions,
                max_records=self._options.max_records_per_partition,
            )
        ]

    def _readable_tasks(
        self, start: Positions, end: Positions, losses: Sequence[str] = ()
    ) -> list[TaskRange]:
        """The tasks of the ranges; first raises or reports missing records."""
        earliest = self._offsets([name for name in start if name in end], EARLIEST)
        begin, more = data_loss.readable_starts(start, end, earliest)
        data_loss.raise_or_report([*losses, *more], is_fatal=self._options.fails_on_data_loss)
        return self._tasks(begin, end)

    def _check_option(
        self, option: str, limit: Limit, positions_given: Positions, latest: Positions
    ) -> None:
        """Refuse an option's offsets after the log end, unless failOnDataLoss is false."""
        if limit.offsets is None or not self._options.fails_on_data_loss:
            return
        after_end = [name for name in positions_given if positions_given[name] > latest[name]]
        if after_end:
            name = after_end[0]
            log_start = self._offsets([name], EARLIEST)[name]
            raise ConfigError(
                f"option {option}: {data_loss.partition_text(name)} has offsets {log_start} to "
                f"{latest[name]}, and {positions_given[name]} was given: give an offset in "
                "this range"
            )

    def _offsets(self, names: Sequence[tuple[str, int]], timestamp: int) -> Positions:
        results = offsets.find(
            self._cluster, dict.fromkeys(names, timestamp), self._options.isolation_level
        )
        return {name: result.offset for name, result in results.items()}

    def _selected(self) -> list[PartitionName]:
        """The partitions to read; it is said once if a pattern matches no topic."""
        selection = self._options.selection
        names = positions.selected(self._cluster, selection)
        if not names and selection.kind == PATTERN and not self._has_said_nothing_matches:
            self._has_said_nothing_matches = True
            until = " until one is created" if self._is_stream else ""
            print(
                f"kraftlog: subscribePattern={selection.pattern} matches no topic: no rows are "
                f"read{until}",
                file=sys.stderr,
                flush=True,
            )
        return names

    def _latest(self) -> Positions:
        """The current end offset of each partition to read."""
        names = self._selected()
        return self._resolved(names, Limit(everywhere=LATEST))

    def _resolved(self, names: Sequence[tuple[str, int]], limit: Limit) -> Positions:
        return positions.resolved(
            self._cluster,
            list(names),
            limit,
            self._options.isolation_level,
            latest_if_none=self._options.is_late_start_latest
            or limit is not self._options.starting,
        )


class BatchReader(Planner, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        with brief_errors(self._options.servers):
            names = self._selected()
            start = self._resolved(names, self._options.starting)
            end = self._resolved(names, self._options.ending)
            latest = self._offsets(names, LATEST)
            self._check_option("startingOffsets", self._options.starting, start, latest)
            self._check_option("endingOffsets", self._options.ending, end, latest)
            losses = []
            for name in names:
                if latest[name] >= start[name] > end[name]:
                    raise ConfigError(
                        f"{data_loss.partition_text(name)}: the start, offset {start[name]}, is "
                        f"after the end, offset {end[name]}"
                    )
                if end[name] > latest[name]:
                    losses.append(data_loss.early_end_text(name, end[name], latest[name]))
                    end[name] = latest[name]
            return self._readable_tasks(start, end, losses)


class StreamReader(Planner, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Its offsets have the form of Spark's connector: `{"topic": {"0": 23}}`."""

    _is_stream = True
    #: With the trigger availableNow: the end offsets at the start of the query.
    _stop_at: Positions | None = None
    #: The end offsets when they were last looked up, for progress reports.
    _last_ends: Positions | None = None
    #: Until when the next batch waits for `minOffsetsPerTrigger`; the first batch does not wait.
    _wait_deadline: Deadline | None = None

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        #: The topics' ids when they were last looked up.
        self._known_ids: dict[str, Uuid] = {}

    def initialOffset(self) -> Nested:
        with brief_errors(self._options.servers):
            names = self._selected()
            start = self._resolved(names, self._options.starting)
            latest = self._offsets(names, LATEST)
            self._check_option("startingOffsets", self._options.starting, start, latest)
            return self._with_topic_ids(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        max_offsets = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if max_offsets is None else ReadMaxRows(max_offsets)

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:
        with brief_errors(self._options.servers):
            self._last_ends = end = self._latest() if self._stop_at is None else self._stop_at
            begin = self._with_new(self._without_recreated(start, end), end)
            if self._waits_for_more(begin, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = positions.prorated(begin, end, limit.max_rows)
            return self._with_topic_ids(end)

    def prepareForTriggerAvailableNow(self) -> None:
        with brief_errors(self._options.servers):
            self._stop_at = self._latest()

    def reportLatestOffset(self) -> Nested | None:
        return None if self._last_ends is None else positions.nested(self._last_ends)

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        with brief_errors(self._options.servers):
            end_offsets = positions.flat(end)
            old_ids, new_ids = positions.topic_ids(start), positions.topic_ids(end)
            recreated = data_loss.recreated_topics(old_ids, new_ids)
            losses = [
                data_loss.recreation_text(
                    each, old_ids[each], new_ids[each], "it is read from its start"
                )
                for each in recreated
            ]
            begin = _without_topics(positions.flat(start), recreated)
            added = self._offsets([name for name in end_offsets if name not in begin], EARLIEST)
            return self._readable_tasks(
                begin | added, end_offsets, losses + data_loss.skipped_in_new_partitions(added)
            )

    def _without_recreated(self, start: Nested, end: Positions) -> Positions:
        """`start` without topics that were created again; these are reported or raise an error.

        Without the ids in the checkpoint they stay in `start`: Spark might plan the same batch
        differently later.
        """
        new_ids = self._ids_of(end)
        remembers = self._options.remembers_topic_ids
        old_ids = self._known_ids | (positions.topic_ids(start) if remembers else {})
        recreated = data_loss.recreated_topics(old_ids, new_ids)
        if recreated and (self._options.fails_on_data_loss or not remembers):
            consequence = "rememberTopicIds=true would read it from its start"
            data_loss.raise_or_report(
                [
                    data_loss.recreation_text(t, old_ids[t], new_ids[t], consequence)
                    for t in recreated
                ],
                is_fatal=self._options.fails_on_data_loss,
            )
        self._known_ids |= new_ids
        return _without_topics(positions.flat(start), recreated if remembers else [])

    def _with_topic_ids(self, offsets_found: Positions) -> Nested:
        """Offsets in the form of a checkpoint, with the topics' ids if rememberTopicIds is set."""
        ids = self._ids_of(offsets_found) if self._options.remembers_topic_ids else {}
        return positions.nested(offsets_found, ids)

    def _ids_of(self, offsets_found: Positions) -> dict[str, Uuid]:
        return {
            name: self._cluster.topic(name).id for name in {topic for topic, _ in offsets_found}
        }

    def _waits_for_more(self, begin: Positions, end: Positions) -> bool:
        """Whether to wait, as there are too few offsets for a batch and time is left."""
        min_offsets = self._options.min_offsets_per_trigger
        if min_offsets is None or self._stop_at is not None:
            return False
        available = sum(max(0, end[name] - begin[name]) for name in end)
        if (
            available < min_offsets
            and self._wait_deadline is not None
            and not self._wait_deadline.is_over
        ):
            return True
        self._wait_deadline = Deadline(self._options.max_trigger_delay_ms / 1000)
        return False

    def _with_new(self, start: Positions, end: Positions) -> Positions:
        """`start` with the new partitions of `end`, which are read from their start."""
        return start | self._offsets([name for name in end if name not in start], EARLIEST)


class RefusedStream(DataSourceStreamReader):
    """A stream that can't be read: raises the error when Spark asks for offsets.

    If `streamReader` raised it, PySpark would report an error of its own instead: in `finally`, its
    runner uses the reader that does not exist.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> Nested:
        raise self._error

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:
        raise self._error

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


def _without_topics(offsets_found: Positions, topics: Sequence[str]) -> Positions:
    return {name: offset for name, offset in offsets_found.items() if name[0] not in topics}
