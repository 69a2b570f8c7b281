"""The columns that the sink accepts, checked when a write is planned and prepared in its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError
from kraftlog.records.arrow import scalar, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.records.encode_columns import Numbers
    from kraftlog.spark.sink_options import SinkOptions

#: Column -> Spark's types for it. Other columns are ignored, as Spark's connector does.
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
    """Rows to write, as columns in the types of a record."""

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
        """The partition that each row names, -1 for none; None if no row names one."""
        column = self._column("partition")
        if column is None or column.null_count == self.count:
            return None
        wanted: Numbers = values_of(column.fill_null(scalar(-1, pa.int32()))).astype(np.int64)
        if pc.min(column).as_py() < 0:
            raise ConfigError(f"partition {pc.min(column).as_py()}: expected at least 0, or null")
        return wanted

    def timestamps_ms(self) -> Numbers:
        """The timestamp of each row; the current time if it has none."""
        now = wall_ms()
        column = self._column("timestamp")
        if column is None:
            return np.full(self.count, now, dtype=np.int64)
        micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        found: Numbers = values_of(micros.fill_null(scalar(now * 1000, pa.int64()))) // 1000
        if self.count and found.min() < 0:
            raise ConfigError(f"timestamp {int(found.min())} ms: expected one from 1970 on")
        return found

    def _column(self, name: str) -> pa.Array | None:
        place = self._batch.schema.get_field_index(name)
        return None if place < 0 else self._batch.column(place)

    def _bytes(self, name: str) -> pa.BinaryArray | None:
        column = self._column(name)
        return None if column is None else column.cast(pa.binary())
