"""The columns that the sink accepts, checked when a write is planned and prepared in its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError
from kraftlog.records.arrow import nulls_of, scalar, values_of
from kraftlog.spark.schema import OUT_OF_RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.records.encode_columns import Numbers
    from kraftlog.spark.sink_options import SinkOptions

#: The types that Spark may give each column. Other columns are ignored, as by Spark's connector.
_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """Raise ConfigError unless these columns, by their name and type, can be written."""
    if "value" not in types:
        raise ConfigError(f"a column value is required; the columns are {', '.join(types)}")
    for name, accepted in _TYPES.items():
        if name in types and types[name] not in accepted:
            raise ConfigError(
                f"column {name} is of type {types[name]}; expected {' or '.join(accepted)}"
            )
    if options.topic is None and "topic" not in types:
        raise ConfigError("set the option topic, or give the rows a column topic")


class Rows:
    """Rows to write, by column, each in the type that a record has."""

    def __init__(self, batch: pa.RecordBatch, topic: str | None) -> None:
        self._batch = batch
        self.count = batch.num_rows
        self.keys = self._bytes("key")
        self.values = self._bytes("value")
        self.headers: pa.ListArray | None = self._column("headers")
        self._topic = topic

    def topics(self) -> tuple[list[str], Numbers]:
        """The topic names, and for each row the index of its topic in them."""
        if self._topic is not None:
            return [self._topic], np.zeros(self.count, dtype=np.int64)
        column = self._column("topic")
        if column is None or column.null_count:
            raise ConfigError("a row has no topic (null); the option topic sets it for all rows")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), values_of(encoded.indices).astype(np.int64)

    def partitions(self) -> Numbers | None:
        """The partition of each row, or -1 for null; None if no row has a partition."""
        column = self._column("partition")
        if column is None or column.null_count == self.count:
            return None
        partitions: Numbers = values_of(column.fill_null(scalar(-1, pa.int32()))).astype(np.int64)
        if pc.min(column).as_py() < 0:
            raise ConfigError(f"partition {pc.min(column).as_py()}: expected at least 0, or null")
        return partitions

    def timestamps_ms(self, *, may_be_negative: bool = False) -> Numbers:
        """The timestamp of each row; the current time if it has none.

        Records without a timestamp have -1, which producers of Kafka do not set themselves.
        """
        now_ms = wall_ms()
        column = self._column("timestamp")
        if column is None:
            return np.full(self.count, now_ms, dtype=np.int64)
        micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        timestamps: Numbers = values_of(micros.fill_null(scalar(now_ms * 1000, pa.int64()))) // 1000
        out_of_range = self._column(OUT_OF_RANGE)
        if out_of_range is not None:
            timestamps = np.where(nulls_of(out_of_range), timestamps, values_of(out_of_range))
        if self.count and not may_be_negative and timestamps.min() < 0:
            raise ConfigError(f"timestamp {int(timestamps.min())} ms: expected a time from 1970 on")
        return timestamps

    def _column(self, name: str) -> pa.Array | None:
        index = self._batch.schema.get_field_index(name)
        return None if index < 0 else self._batch.column(index)

    def _bytes(self, name: str) -> pa.BinaryArray | None:
        column = self._column(name)
        return None if column is None else column.cast(pa.binary())
