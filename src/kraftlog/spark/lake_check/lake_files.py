"""Reads rows of a table's Parquet files, and counts them, so that no row of a file is overlooked.

Whatever a damaged file makes Arrow raise becomes an `UnreadableFileError`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetFile

from kraftlog.records.arrow import flags, nulls_of, values_of
from kraftlog.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.column_ids import ColumnIds

#: The columns that every table must have to be compared.
PARTITION, OFFSET, TIMESTAMP = "partition", "offset", "timestamp"
_BATCH_ROWS = 1 << 16
_POSITION = {
    name: arrow_schema(with_headers=False).field(name).type for name in (PARTITION, OFFSET)
}

#: By column, the smallest and the largest value.
Bounds = dict[str, tuple[int, int]]


class UnreadableFileError(Exception):
    """A file is lost or broken; the message says why, such as "does not exist"."""


class FileCount(NamedTuple):
    """What was read of a file for a range of offsets, or for several."""

    path: str
    size_bytes: int
    #: The rows of the file, those that readers of the table see, as a deletion vector may hide
    #: some, and of these the ones that belong to the ranges.
    all_rows: int
    rows: int
    counted: int
    #: Of the rows that belong to the ranges: by column, and the number without a timestamp.
    bounds: Bounds
    null_times: int
    #: What the file's own footer says that is not so; empty if there is nothing.
    wrong: str = ""

    def plus(self, other: FileCount) -> FileCount:
        return self._replace(
            counted=self.counted + other.counted,
            bounds=wider(self.bounds, other.bounds),
            null_times=self.null_times + other.null_times,
            wrong=self.wrong or other.wrong,
        )


class FileRows(NamedTuple):
    """Rows of a file in its order, and the number of each in the file, counted from 0."""

    rows: pa.RecordBatch
    numbers: Numbers


class LakeFile:
    """A file, as it is read for one range of offsets of a partition.

    `is_partitioned`: the partition is in Delta's log instead of the file. `deleted`: the rows that
    a deletion vector hides. `is_exact`: no statistics are trusted, so all rows are looked at.
    `column_ids`: those that the columns should have.
    """

    def __init__(
        self,
        path: str,
        *,
        is_partitioned: bool,
        deleted: NDArray[np.bool_] | None = None,
        is_exact: bool = False,
        column_ids: ColumnIds | None = None,
    ) -> None:
        self.path = path
        self._is_partitioned = is_partitioned
        self._deleted = deleted
        self._is_exact = is_exact
        self._column_ids = column_ids
        self._size_bytes = 0
        self._all_rows = 0
        self._rows = 0
        self._counted = 0
        self._bounds: Bounds = {}
        self._null_times = 0
        self._wrong = ""

    @property
    def count(self) -> FileCount:
        return FileCount(
            path=self.path,
            size_bytes=self._size_bytes,
            all_rows=self._all_rows,
            rows=self._rows,
            counted=self._counted,
            bounds=self._bounds,
            null_times=self._null_times,
            wrong=self._wrong,
        )

    def rows(
        self, partition: int, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[FileRows]:
        """The rows with these offsets of a partition; columns the file lacks are null.

        The columns have the types that kraftlog's Spark source gives them; row groups without such
        offsets are not read.
        """
        log_schema = arrow_schema(with_headers=True, for_table=True)
        schema = pa.schema([log_schema.field(name) for name in (OFFSET, *columns)])
        names = [*schema.names, *([] if self._is_partitioned else [PARTITION])]
        for rows, numbers in self._batches(names, start, end):
            offsets = rows.column(OFFSET)
            offset_values = values_of(offsets)
            kept = (offset_values >= start) & (offset_values < end) & ~nulls_of(offsets)
            if not self._is_partitioned:
                partitions = rows.column(PARTITION)
                kept &= (values_of(partitions) == partition) & ~nulls_of(partitions)
            if self._deleted is not None:
                kept &= ~self._deleted[numbers]
            is_whole = bool(kept.all())
            found = rows.select(schema.names)
            if not is_whole:
                found, numbers = found.filter(flags(kept)), numbers[kept]
            if len(found):
                self._count(found, partition)
                yield FileRows(found, numbers)

    def positions(self) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """The columns `partition` and `offset` of all rows that readers see."""
        self._is_exact = True
        names = [OFFSET, *([] if self._is_partitioned else [PARTITION])]
        for rows, numbers in self._batches(names):
            if self._deleted is not None:
                kept = ~self._deleted[numbers]
                yield rows.filter(flags(kept)), numbers[kept]
            else:
                yield rows, numbers

    def _batches(
        self, names: Sequence[str], start: int = 0, end: int = 0
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        with readable(), ParquetFile(self.path) as file:
            self._size_bytes = os.path.getsize(self.path)
            self._rows = self._all_rows = file.metadata.num_rows
            if self._deleted is not None:  # it may end after the last deleted row
                self._deleted = np.pad(self._deleted, (0, self._rows - len(self._deleted)))
                self._rows -= int(self._deleted.sum())
            if self._column_ids is not None:
                self._wrong = self._column_ids.wrong(file.schema_arrow)
            present = set(file.schema_arrow.names)
            first_row = 0
            for group in range(file.num_row_groups):
                group_rows = file.metadata.row_group(group).num_rows
                span = group_span(file, group)
                if self._is_exact or span is None or (span[0] < end and span[1] >= start):
                    yield from self._group(file, group, first_row, names, present, span)
                first_row += group_rows

    def _group(
        self,
        file: ParquetFile,
        group: int,
        first_row: int,
        names: Sequence[str],
        present: set[str],
        span: tuple[int, int] | None,
    ) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        bounds: Bounds = {}
        columns = [name for name in names if name in present]
        for batch in file.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=columns or None
        ):
            rows = _as_in_log(batch, names)
            bounds = wider(bounds, _bounds(rows, [OFFSET]))
            yield rows, np.arange(first_row, first_row + len(rows))
            first_row += len(rows)
        if span is not None and bounds.get(OFFSET, span) != span:
            self._wrong = (
                f"its row group {group} has offsets {_span_text(bounds[OFFSET])}, "
                f"and the statistics of this group say {_span_text(span)}"
            )

    def _count(self, rows: pa.RecordBatch, partition: int) -> None:
        self._counted += len(rows)
        names = [name for name in (OFFSET, TIMESTAMP) if name in rows.schema.names]
        if TIMESTAMP in names:
            self._null_times += rows.column(TIMESTAMP).null_count
        found = _bounds(rows, names)
        found[PARTITION] = (partition, partition)
        self._bounds = wider(self._bounds, found)


def _span_text(span: tuple[int, int]) -> str:
    return f"{span[0]} to {span[1]}"


def _as_in_log(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The columns with the types of the log's records; missing ones are null, as for readers."""
    log_schema = arrow_schema(with_headers=True, for_table=True)
    fields = [log_schema.field(name) for name in names]
    present = set(batch.schema.names)
    arrays = []
    for field in fields:
        if field.name not in present:
            arrays.append(pa.nulls(len(batch), field.type))
            continue
        column = batch.column(field.name)
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise UnreadableFileError(
                f"cannot be read: column {field.name} has type {column.type}, "
                f"which is not {field.type}: {_first_line(error)}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@contextmanager
def readable() -> Iterator[None]:
    """Turn every error of reading a file into an `UnreadableFileError`."""
    try:
        yield
    except UnreadableFileError:
        raise
    except FileNotFoundError:
        raise UnreadableFileError("does not exist") from None
    except Exception as error:
        raise UnreadableFileError(f"cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def group_span(file: ParquetFile, group: int) -> tuple[int, int] | None:
    """The first and last offset of a row group, if it has statistics."""
    metadata = file.metadata.row_group(group)
    for number in range(metadata.num_columns):
        column = metadata.column(number)
        if column.path_in_schema == OFFSET:
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                return None
            return statistics.min, statistics.max
    return None


def wider(first: Bounds, second: Bounds) -> Bounds:
    """The bounds of both together."""
    result = dict(first)
    for name, (low, high) in second.items():
        old_low, old_high = result.get(name, (low, high))
        result[name] = (min(low, old_low), max(high, old_high))
    return result


def _bounds(rows: pa.RecordBatch, names: Sequence[str]) -> Bounds:
    found = {}
    for name in names:
        column = rows.column(name)
        numbers = values_of(column)
        if column.null_count:
            numbers = numbers[~nulls_of(column)]
        if len(numbers):
            found[name] = (int(numbers.min()), int(numbers.max()))
    return found
