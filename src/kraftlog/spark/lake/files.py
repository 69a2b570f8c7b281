"""Writes the rows of a range of offsets as Parquet files into a table's directory.

A file belongs to the table only once a commit names it; no commit names a failed task's files.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4  # noqa: TID251 - a name that no other task uses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftlog.records.arrow import flags, nulls_of, values_of
from kraftlog.spark.lake.layout import DATE, NO_DATE
from kraftlog.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC
#: Stands for the day of a time that `timestamp` can't hold.
_NO_DAY = -(2**63)
#: Columns with few different values, for which Parquet's dictionaries pay.
_REPETITIVE = ("topic", "partition", "timestampType", "reason")
#: Columns that grow slowly from row to row.
_GROWING = ("offset", "timestamp")
#: Columns whose smallest and largest values a commit records, so that readers can skip files. The
#: table's property `delta.dataSkippingStatsColumns` has to name exactly these: without the property
#: all columns count, and deltalake takes missing bounds for nulls, so a filter would find no row.
BOUNDED = ("partition", "offset", "timestamp")
STATISTICS = {"delta.dataSkippingStatsColumns": ",".join(BOUNDED)}


class WrittenFile(Value):
    """A file as a commit describes it. `path` is relative to the table's directory."""

    path: str
    size: int
    rows: int
    #: As Delta's JSON: the smallest and largest value of each bounded column, and its nulls.
    stats: str
    #: The value of the column `date`, or `NO_DATE`; None if the table is not partitioned by it.
    date: str | None = None
    #: The columns: Arrow's serialized schema, in base64.
    schema: str = ""

    def fields(self) -> dict[str, Any]:
        """All attributes but the schema, for JSON."""
        return {name: getattr(self, name) for name in ("path", "size", "rows", "stats", "date")}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> WrittenFile:
        return cls(**fields)


class FileWriter:
    """Writes rows to files: a new file for each schema and, if `by_date`, for each date.

    `add_ids` adds a format's ids to the columns of a file.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        *,
        by_date: bool = False,
        add_ids: Callable[[pa.Schema], pa.Schema] | None = None,
    ) -> None:
        self._directory = directory
        self._name = name
        self._by_date = by_date
        self._add_ids = add_ids
        self._open: dict[str | None, _OpenFile] = {}
        self.written: list[WrittenFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        for date, part in _split_by_date(rows) if self._by_date else [(None, rows)]:
            file = self._open.get(date)
            if file is not None and not file.schema.equals(part.schema):
                self.written.append(file.close())
                file = None
            if file is None:
                written = part.schema if self._add_ids is None else self._add_ids(part.schema)
                file = _OpenFile(self._directory, self._name, date, part.schema, written)
                self._open[date] = file
            file.write(part)

    def close(self) -> list[WrittenFile]:
        """Finish the open files; return all files that this writer has written."""
        for file in self._open.values():
            self.written.append(file.close())
        self._open.clear()
        return self.written


class _OpenFile:
    def __init__(
        self,
        directory: str,
        name: str,
        date: str | None,
        schema: pa.Schema,
        written_schema: pa.Schema,
    ) -> None:
        folder = "" if date is None else f"{DATE}={date}"
        os.makedirs(os.path.join(directory, folder), exist_ok=True)
        self._date = date
        self._path = os.path.join(folder, f"{name}-{uuid4()}.zstd.parquet")
        self._whole_path = os.path.join(directory, self._path)
        self.schema = schema
        self._rows = 0
        self._minimums: dict[str, int] = {}
        self._maximums: dict[str, int] = {}
        self._nulls = dict.fromkeys(BOUNDED, 0)
        names = set(schema.names)
        self._writer = pq.ParquetWriter(
            self._whole_path,
            written_schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in _REPETITIVE if name in names],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in _GROWING if name in names},
            write_statistics=[name for name in BOUNDED if name in names],
            store_schema=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self._rows += len(rows)
        for name in BOUNDED:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if column.null_count == len(column):
                continue
            bounds = pc.min_max(column.cast(pa.int64()))
            low, high = bounds["min"].as_py(), bounds["max"].as_py()
            self._minimums[name] = min(low, self._minimums.get(name, low))
            self._maximums[name] = max(high, self._maximums.get(name, high))

    def close(self) -> WrittenFile:
        self._writer.close()
        # A file that a commit names has to survive a power failure.
        with open(self._whole_path, "rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        stats = {
            "numRecords": self._rows,
            "minValues": _bounds(self._minimums),
            "maxValues": _bounds(self._maximums),
            "nullCount": self._nulls,
        }
        return WrittenFile(
            self._path, size, self._rows, json.dumps(stats), self._date, schema_text(self.schema)
        )


def schema_text(schema: pa.Schema) -> str:
    """A schema as base64 text, for the way from a task to the driver."""
    import base64

    return base64.b64encode(schema.serialize()).decode()


def schema_of(text: str) -> pa.Schema:
    import base64

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _bounds(by_column: Mapping[str, int]) -> dict[str, int | str]:
    """Bounds as in Delta's log: numbers, and the timestamp in ISO 8601 with milliseconds."""
    if "timestamp" not in by_column:
        return {**by_column}
    time = _EPOCH + timedelta(microseconds=by_column["timestamp"])
    return {**by_column, "timestamp": time.isoformat(timespec="milliseconds") + "Z"}


def _split_by_date(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by their date in UTC; each part keeps the order of its rows."""
    days = values_of(rows.column("timestamp")) // _DAY_US
    days = np.where(nulls_of(rows.column("timestamp")), _NO_DAY, days)
    for day in np.unique(days):
        date = NO_DATE if day == _NO_DAY else str(np.datetime64(int(day), "D"))
        yield date, rows if days.min() == days.max() else rows.filter(flags(days == day))
