"""Merges a table's small files into larger ones, which stay sorted by partition and offset.

A merged file has records of one partition, in the order of the log, so that readers that look for
offsets can skip it, and `verify` can compare its bytes as they are.
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

    from kraftlog.spark.lake.table import ArchiveTable

#: Files of less than half the target are merged up to it.
TARGET_BYTES = 256 << 20


class _SmallFile(NamedTuple):
    #: The date, if the table is partitioned, and the partition: what a file may be merged with.
    group: tuple[str, int]
    first: int
    path: str
    size: int


def compact(table: ArchiveTable, target_bytes: int = TARGET_BYTES) -> tuple[int, int]:
    """Merge small files in one commit; return how many files were replaced, and by how many."""
    table.refresh()
    removed: list[str] = []
    writer = FileWriter(table.path, "compacted", by_date=table.is_by_date)
    for files in _mergeable(_small_files(table, target_bytes), target_bytes):
        for each in files:
            for rows in _rows(os.path.join(table.path, each.path), table.schema):
                writer.write(rows)
        writer.close()
        removed += [each.path for each in files]
    if removed:
        table.replace(removed, writer.written)
    return len(removed), len(writer.written)


def _small_files(table: ArchiveTable, target_bytes: int) -> list[_SmallFile]:
    found = []
    for action in table.actions():
        partition = action.get("min.partition")
        is_small = action["size_bytes"] < target_bytes // 2
        if not is_small or partition is None or partition != action.get("max.partition"):
            continue
        date = str(action.get(f"partition.{DATE}", ""))
        path = unquote(action["path"])
        found.append(
            _SmallFile((date, partition), action["min.offset"], path, action["size_bytes"])
        )
    return sorted(found)


def _mergeable(files: Sequence[_SmallFile], target_bytes: int) -> Iterator[list[_SmallFile]]:
    """Runs of at least two files of one partition, each run of at most the target size together."""
    run: list[_SmallFile] = []
    for each in files:
        is_full = run and sum(file.size for file in run) + each.size > target_bytes
        if run and (each.group != run[0].group or is_full):
            if len(run) > 1:
                yield run
            run = []
        run.append(each)
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
