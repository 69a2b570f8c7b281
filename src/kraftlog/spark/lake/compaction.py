"""Merges a table's small files into larger ones, which stay sorted by partition and offset.

A merged file has records of one partition, in the order of the log. So readers that look for
offsets can skip it by its statistics, and `verify` need not sort its rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from kraftlog.spark.lake.files import FileWriter
from kraftlog.spark.lake.layout import DATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.spark.lake.delta_table import DeltaArchive

#: Files of less than half this size are merged into files of at most this size.
TARGET_BYTES = 256 << 20


class _SmallFile(NamedTuple):
    #: The date (empty if the table is not partitioned by it) and the partition of all its records.
    #: Only files of the same group are merged.
    group: tuple[str, int]
    first_offset: int
    path: str
    size: int


def compact(table: DeltaArchive, target_bytes: int = TARGET_BYTES) -> tuple[int, int]:
    """Merge small files in one commit; return the numbers of replaced and of new files."""
    table.refresh()
    removed: list[str] = []
    writer = FileWriter(table.path, "compacted", by_date=table.is_by_date)
    for files in _mergeable(_small_files(table, target_bytes), target_bytes):
        for file in files:
            for rows in _rows(os.path.join(table.path, file.path), table.schema):
                writer.write(rows)
        writer.close()
        removed += [file.path for file in files]
    if removed:
        table.replace(removed, writer.written)
    return len(removed), len(writer.written)


def _small_files(table: DeltaArchive, target_bytes: int) -> list[_SmallFile]:
    files = []
    for action in table.actions():
        partition = action.get("min.partition")
        is_small = action["size_bytes"] < target_bytes // 2
        if not is_small or partition is None or partition != action.get("max.partition"):
            continue
        date = str(action.get(f"partition.{DATE}", ""))
        path = unquote(action["path"])
        files.append(
            _SmallFile((date, partition), action["min.offset"], path, action["size_bytes"])
        )
    return sorted(files)


def _mergeable(files: Sequence[_SmallFile], target_bytes: int) -> Iterator[list[_SmallFile]]:
    """Groups of two or more files to merge: of one date and partition, within the target size."""
    run: list[_SmallFile] = []
    for file in files:
        is_full = run and sum(other.size for other in run) + file.size > target_bytes
        if run and (file.group != run[0].group or is_full):
            if len(run) > 1:
                yield run
            run = []
        run.append(file)
    if len(run) > 1:
        yield run


def _rows(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with all columns that the table has now."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1 << 16):
            names = set(batch.schema.names)
            arrays = [
                batch.column(field.name).cast(field.type)
                if field.name in names
                else pa.nulls(len(batch), field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
