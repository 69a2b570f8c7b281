"""The table that is replayed: which records it has is read without Spark, from a few columns."""

from __future__ import annotations

import os
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.archives import DELTA, ICEBERG, check_pyiceberg, format_of
from kraftlog.spark.lake.state import is_durable, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from kraftlog.spark.lake.iceberg.reading import LiveFiles

    #: The limits of --from and --until, by column and by whether the limit is the end.
    Limits = Mapping[tuple[str, bool], int | datetime]

REQUIRED = ("value", "partition", "offset")
TIMESTAMP = "timestamp"
#: The results of this many batches of rows are combined, to bound the memory.
_COMBINED = 256
_COMBINATION = {"min": "min", "max": "max", "count": "sum"}


class Span(NamedTuple):
    """Records of one partition: the first and last offset, how many, and their times."""

    topic: str | None
    partition: int
    first: int
    last: int
    records: int
    #: In microseconds; None without times.
    first_us: int | None
    last_us: int | None


class RowFilter(NamedTuple):
    """Selects rows: within limits, of a topic, and from an offset of each partition on."""

    limits: Limits
    topic: str | None = None
    starts: Mapping[int, int] | None = None


class ReplayTable:
    """A Delta or Iceberg table, or Parquet files, with the columns of records."""

    def __init__(self, directory: str) -> None:
        """Raises ConfigError if the directory does not exist, or is one of several tables."""
        self.directory = directory
        #: By partition, the first offset that the retention of an archive has not removed.
        self.kept: dict[int, int] = {}
        if "://" not in directory and not os.path.exists(directory):
            raise ConfigError(
                f"{directory} does not exist: expected a Delta or Iceberg table, or Parquet files"
            )
        is_delta = not os.path.isfile(directory) and DeltaTable.is_deltatable(directory)
        #: DELTA, ICEBERG, or None for Parquet files.
        self.format = DELTA if is_delta else format_of(directory)
        if self.format == ICEBERG:
            if not self._iceberg.paths:
                raise ConfigError(f"{directory} is an Iceberg table without rows")
            self.columns = list(self._iceberg.columns.names)
            return
        if is_delta:
            opened = DeltaTable(directory)
            if not opened.file_uris():
                raise ConfigError(f"{directory} is a Delta table without rows")
            self.columns = [field.name for field in opened.schema().fields]
            state = state_of(opened) if is_durable(opened) else None
            if state is not None:
                self.kept = {index: offset for index, offset in state.kept.items() if offset}
            return
        if os.path.isdir(directory) and (tables := _tables_below(directory)):
            raise ConfigError(
                f"{directory} is a directory of tables: name one of them: {', '.join(tables)}"
            )
        self.columns = list(self._dataset.schema.names)

    @property
    def has_times(self) -> bool:
        has_column = TIMESTAMP in self.columns
        return has_column and pa.types.is_timestamp(self._dataset.schema.field(TIMESTAMP).type)

    def spans(self, row_filter: RowFilter) -> list[Span]:
        """The rows by topic, if there is such a column, and partition."""
        columns = {name: ds.field(name) for name in self._keys}
        columns["offset"] = ds.field("offset")
        functions = [("offset", "min"), ("offset", "max"), ("offset", "count")]
        if self.has_times:
            columns["time"] = self._micros()
            functions += [("time", "min"), ("time", "max")]
        found = self._grouped(row_filter, columns, self._keys, functions)
        spans = [
            Span(
                row.get("topic"),
                int(row["partition"]),
                row["offset_min"],
                row["offset_max"],
                row["offset_count"],
                row.get("time_min"),
                row.get("time_max"),
            )
            for row in found.to_pylist()
        ]
        return sorted(spans, key=lambda span: (span.topic or "", span.partition))

    def periods(self, row_filter: RowFilter, start_us: int, period_us: int) -> pa.Table:
        """Of each period after `start_us`: the `partition`, the `period`, and its `offset_min`."""
        since_start = pc.subtract(self._micros(), pa.scalar(start_us))
        columns = {
            "partition": ds.field("partition"),
            "offset": ds.field("offset"),
            "period": pc.divide(since_start, pa.scalar(period_us)),
        }
        return self._grouped(row_filter, columns, ["partition", "period"], [("offset", "min")])

    @property
    def _keys(self) -> list[str]:
        return [name for name in ("topic", "partition") if name in self.columns]

    @cached_property
    def _dataset(self) -> Any:
        if self.format == DELTA:
            return DeltaTable(self.directory).to_pyarrow_dataset()
        if self.format == ICEBERG:
            return ds.dataset(
                list(self._iceberg.paths), format="parquet", schema=self._iceberg.columns
            )
        try:
            return ds.dataset(self.directory, format="parquet", partitioning="hive")
        except (OSError, pa.ArrowInvalid) as error:
            raise ConfigError(f"{self.directory}: {error}") from None

    @cached_property
    def _iceberg(self) -> LiveFiles:
        check_pyiceberg()
        from kraftlog.spark.lake.iceberg.reading import live_files

        return live_files(self.directory)

    def _micros(self) -> Any:
        """The time of each row in microseconds; null for a record without a time, which is -1."""
        times = ds.field(TIMESTAMP).cast(pa.timestamp("us")).cast(pa.int64())
        return pc.if_else(pc.less(times, pa.scalar(0)), pa.scalar(None, pa.int64()), times)

    def _condition(self, row_filter: RowFilter) -> Any:
        condition = pc.scalar(True)
        if row_filter.topic is not None and "topic" in self.columns:
            condition &= ds.field("topic") == row_filter.topic
        for (column, is_end), limit in row_filter.limits.items():
            value = limit if isinstance(limit, int) else self._time_scalar(limit)
            field = ds.field(column)
            condition &= field < value if is_end else field >= value
        if row_filter.starts is not None:
            after_starts = pc.scalar(False)
            for partition, start in row_filter.starts.items():
                after_starts |= (ds.field("partition") == partition) & (ds.field("offset") >= start)
            condition &= after_starts
        return condition

    def _time_scalar(self, limit: datetime) -> Any:
        column_type = self._dataset.schema.field(TIMESTAMP).type
        time = limit.astimezone(UTC)
        return pa.scalar(time if column_type.tz else time.replace(tzinfo=None), column_type)

    def _grouped(
        self,
        row_filter: RowFilter,
        columns: Mapping[str, Any],
        keys: Sequence[str],
        functions: Sequence[tuple[str, str]],
    ) -> pa.Table:
        """Group rows by keys; the memory depends on the number of groups, not of rows."""
        combination = [(f"{name}_{which}", _COMBINATION[which]) for name, which in functions]
        parts: list[pa.Table] = []

        def combined() -> pa.Table:
            grouped = pa.concat_tables(parts).group_by(keys).aggregate(combination)
            names = [f"{name}_{which}" for name, which in functions]
            aggregated = [f"{name}_{which}" for name, which in combination]
            return grouped.select([*keys, *aggregated]).rename_columns([*keys, *names])

        scanner = self._dataset.scanner(columns=dict(columns), filter=self._condition(row_filter))
        schema = scanner.projected_schema
        parts.append(schema.empty_table().group_by(keys).aggregate(list(functions)))
        for batch in scanner.to_batches():
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                parts.append(table.group_by(keys).aggregate(list(functions)))
            if len(parts) >= _COMBINED:
                parts[:] = [combined()]
        return combined()


def _tables_below(directory: str) -> list[str]:
    paths = (entry.path for entry in os.scandir(directory) if entry.is_dir())
    return sorted(path for path in paths if format_of(path) is not None)
