"""The source of `kraftlog pipeline archive`: its tasks write files, and its rows describe them.

A task reads a range of offsets from the broker and writes it as Parquet into the directory of the
topic's table, so that records never leave Spark's Python worker for the JVM. Spark gets
one row for each range. The driver commits the files of a batch.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from kraftlog.client.fetched_batches import READ_COMMITTED
from kraftlog.errors import KraftlogError
from kraftlog.records.arrow import byte_strings, numbers
from kraftlog.spark import positions
from kraftlog.spark.lake.archives import open_archive
from kraftlog.spark.lake.ranges import RangeArchiver
from kraftlog.spark.options import Options, source_options
from kraftlog.spark.source import RefusedStream, StreamReader, TaskRange
from kraftlog.spark.worker_memory import freeze_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from kraftlog.spark.positions import Nested, Positions

FORMAT = "kraftlog_archive"
#: `outcome` is the JSON of `lake.ranges.Outcome`.
_ARROW = pa.schema([("partition", pa.int32()), ("outcome", pa.string())])


class ArchiveSource(DataSource):
    """Takes the options of the source `kraftlog`, and those that begin with `archive.`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "partition INT, outcome STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return ArchiveReader(self.options)
        except KraftlogError as error:
            return RefusedStream(error)


class ArchiveReader(StreamReader):
    """Reads the offsets that the table does not have yet, whatever Spark's checkpoint says."""

    def __init__(self, given_options: dict[str, str]) -> None:
        options = Options(given_options)
        of_source = {
            name: value for name, value in given_options.items() if not name.startswith("archive.")
        }
        of_source["kafka.isolation.level"] = "read_committed"
        super().__init__(source_options(of_source, is_stream=True))
        self._directory = options.required("archive.directory")
        self._topic = options.required("subscribe")
        #: The attributes of `lake.decode.Decoding`. Spark redacts an option that is named a secret.
        self._decoding = json.loads(options.required("archive.decoding"))
        self._decoding["registry_access"] = json.loads(options.required("archive.registrySecrets"))
        #: The offset of each partition at which --until ends the archive, if it was given.
        self._end = options.by_partition("archive.end")
        #: Whether the archive ends after one batch.
        self._is_once = options.flag("archive.once", default=False)
        self._may_lose = options.flag("archive.allowDataLoss", default=False)

    def initialOffset(self) -> Nested:
        return positions.nested(self._with_new(self._archived(), self._latest()))

    def prepareForTriggerAvailableNow(self) -> None:
        super().prepareForTriggerAvailableNow()
        max_offsets = self._options.max_offsets_per_trigger
        if self._is_once and max_offsets is not None and self._stop_at is not None:
            start = self._with_new(self._archived(), self._stop_at)
            self._stop_at = positions.prorated(start, self._stop_at, max_offsets)

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        end_offsets = positions.flat(end)
        begin = self._with_new(positions.flat(start), end_offsets) | self._archived()
        return self._tasks(begin, end_offsets)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskRange)
        archiver = RangeArchiver(
            self._cluster,
            partition.range,
            self._directory,
            self._decoding,
            isolation_level=READ_COMMITTED,
            may_lose=self._may_lose,
        )
        outcome = json.dumps(archiver.run().fields())
        columns = [
            numbers(np.array([partition.range.partition], np.int32), pa.int32()),
            byte_strings([outcome.encode()], pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)
        freeze_modules()

    def _without_recreated(self, start: Nested, end: Positions) -> Positions:
        """`start` unchanged: the tasks and the commit compare the topic's id with the table's."""
        return positions.flat(start)

    def _archived(self) -> Positions:
        table = open_archive(self._directory, self._topic)
        assert table is not None, "the pipeline creates the table first"
        return {(self._topic, index): offset for index, offset in table.state.offsets.items()}

    def _latest(self) -> Positions:
        """Where the archive ends now: at the log's end, or at --until where that is earlier."""
        latest = super()._latest()
        end = dict(self._end or ())
        return {name: min(offset, end.get(name, offset)) for name, offset in latest.items()}
