"""The data source `kraftlog`: Spark calls it to plan and to read topics, in batches or streams.

The plan is made in one process at the driver. `read` runs in the workers, on a pickled copy of the
reader, and yields Arrow record batches.
"""

from __future__ import annotations

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

from kraftlog.client.range_reader import RangeReader
from kraftlog.spark import positions
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.options import EARLIEST, LATEST, Limit, source_options
from kraftlog.spark.ranges import OffsetRange, split
from kraftlog.spark.rows import RowMaker
from kraftlog.spark.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kraftlog.client.cluster import Cluster
    from kraftlog.spark.options import SourceOptions
    from kraftlog.spark.positions import Nested, Positions


class KraftlogDataSource(DataSource):
    """`spark.read.format("kraftlog")` and `spark.readStream.format("kraftlog")`."""

    @classmethod
    def name(cls) -> str:
        return "kraftlog"

    def schema(self) -> str:
        headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return spark_schema(with_headers=headers)

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(source_options(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(source_options(self.options, is_stream=True))


class TaskRange(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.range = wanted


class Planner:
    """What the batch and the streaming reader share: the options, the cluster, and reading."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._options.servers, self._options.timeout_s)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskRange)
        wanted = partition.range
        maker = RowMaker(wanted, with_headers=self._options.includes_headers)
        reader = RangeReader(
            self._cluster,
            wanted.name,
            wanted.start,
            wanted.end,
            isolation_level=self._options.isolation_level,
        )
        for fetched in reader:
            yield from maker.rows(fetched)

    def _tasks(self, start: Positions, end: Positions) -> list[TaskRange]:
        ranges = [OffsetRange(*name, start[name], end[name]) for name in end if name in start]
        return [
            TaskRange(each)
            for each in split(
                ranges,
                min_partitions=self._options.min_partitions,
                max_records=self._options.max_records_per_partition,
            )
        ]

    def _latest(self) -> Positions:
        """The end of each partition that is to be read."""
        names = positions.selected(self._cluster, self._options.selection)
        return self._resolved(names, Limit(everywhere=LATEST))

    def _resolved(self, names: Sequence[tuple[str, int]], limit: Limit) -> Positions:
        return positions.resolved(
            self._cluster,
            list(names),
            limit,
            self._options.isolation_level,
            is_late_latest=self._options.is_late_start_latest
            or limit is not self._options.starting,
        )


class BatchReader(Planner, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        names = positions.selected(self._cluster, self._options.selection)
        start = self._resolved(names, self._options.starting)
        end = self._resolved(names, self._options.ending)
        return self._tasks(start, end)


class StreamReader(Planner, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are those of Spark's Kafka connector: `{"topic": {"0": 23}}`."""

    _stop_at: Positions | None = None

    def initialOffset(self) -> Nested:
        names = positions.selected(self._cluster, self._options.selection)
        return positions.nested(self._resolved(names, self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:
        end = self._latest() if self._stop_at is None else self._stop_at
        if isinstance(limit, ReadMaxRows):
            begin = self._with_new(positions.flat(start), end)
            end = positions.prorated(begin, end, limit.max_rows)
        return positions.nested(end)

    def prepareForTriggerAvailableNow(self) -> None:
        self._stop_at = self._latest()

    def reportLatestOffset(self) -> Nested:
        return positions.nested(self._latest())

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        until = positions.flat(end)
        return self._tasks(self._with_new(positions.flat(start), until), until)

    def _with_new(self, start: Positions, end: Positions) -> Positions:
        """`start` with the partitions that were added since; these are read from their start."""
        added = [name for name in end if name not in start]
        if not added:
            return start
        return start | self._resolved(added, Limit(everywhere=EARLIEST))
