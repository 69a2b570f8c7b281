"""A source in Python whose rows are ready: what Spark's own work for such a source takes.

It plans as kraftlog's does, and yields as many rows of the same size, without a fetch or a decoder.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.spark.topic import VALUE
from kraftlog.records.arrow import byte_strings, numbers
from kraftlog.spark.schema import arrow_schema
from kraftlog.spark.source import KraftlogDataSource, StreamReader, TaskRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

#: Like the rows of a fetch by kraftlog's source.
_ROWS = 36_000


class Ready(KraftlogDataSource):
    @classmethod
    def name(cls) -> str:
        return "ready"

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return ReadyReader(self._checked_options(schema, is_stream=True))


class ReadyReader(StreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskRange)
        left = partition.range.size
        while left > 0:
            yield _rows().slice(0, min(left, _ROWS))
            left -= _ROWS


@cache
def _rows() -> pa.RecordBatch:
    """Made like kraftlog's rows, as `pa.array` would import pandas in each process."""
    int32, int64 = np.zeros(_ROWS, np.int32), np.zeros(_ROWS, np.int64)
    columns = [
        pa.nulls(_ROWS, pa.binary()),
        byte_strings([VALUE] * _ROWS, pa.binary()),
        byte_strings([b"bench"] * _ROWS, pa.string()),
        numbers(int32, pa.int32()),
        numbers(int64, pa.int64()),
        numbers(int64, pa.timestamp("us", tz="UTC")),
        numbers(int32, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(with_headers=False))
