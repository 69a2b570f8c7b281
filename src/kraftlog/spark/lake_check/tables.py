"""Reads a Delta table of one topic's records: its columns, its files, and their offsets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from kraftlog.errors import ConfigError
from kraftlog.records.arrow import flags, nulls_of, values_of
from kraftlog.spark.lake.state import is_durable, state_of
from kraftlog.spark.schema import OUT_OF_RANGE, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from deltalake import DeltaTable

#: The columns that every table must have to be compared.
PARTITION, OFFSET = "partition", "offset"
#: The columns of a record whose content is compared, if a table has them.
CONTENT = ("key", "value", "timestamp", "timestampType", "headers", OUT_OF_RANGE)
#: The directory by which a Delta table is recognized.
_DELTA_LOG = "_delta_log"
#: The key of kraftlog's state in a commit's metadata.
_STATE_KEY = "kraftlog"


class FileSpan(NamedTuple):
    """The records of one partition in a file: how many, and the first and last offset."""

    path: str
    partition: int
    records: int
    first: int
    last: int
    size_bytes: int


class LakeTable(NamedTuple):
    topic: str
    directory: str
    version: int
    #: The columns of a record that are compared, and those that the table lacks or has decoded.
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]
    spans: tuple[FileSpan, ...]
    #: The offsets of each partition that the commits record as archived, if any: the start and the
    #: exclusive end.
    archived: dict[int, tuple[int, int]]
    #: The topic's id when it was archived, as text; empty if unknown.
    topic_id: str
    #: Files whose offsets are unknown, as they are lost or cannot be read, with the reason.
    unreadable: tuple[tuple[str, str], ...]


def table_directories(directory: str) -> list[str]:
    """The table in this directory, or the tables directly below it."""
    if "://" in directory:
        raise ConfigError(f"{directory}: expected a directory of this machine")
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory} is not a directory")
    if os.path.isdir(os.path.join(directory, _DELTA_LOG)):
        return [os.path.abspath(directory)]
    directories = [
        os.path.abspath(entry.path)
        for entry in os.scandir(directory)
        if entry.is_dir() and os.path.isdir(os.path.join(entry.path, _DELTA_LOG))
    ]
    if not directories:
        raise ConfigError(f"{directory} is not a Delta table and has none: no {_DELTA_LOG} in it")
    return sorted(directories)


def open_table(table: DeltaTable, topic: str, directory: str) -> LakeTable:
    """Read a table; the offsets of its files are in Delta's log, or else read from the files."""
    schema = pa.schema(table.schema().to_arrow())
    if not {PARTITION, OFFSET} <= set(schema.names):
        raise ConfigError(f"{directory} has no columns partition and offset: not a topic's records")
    compared, not_compared = _columns(schema)
    spans: list[FileSpan] = []
    unreadable: list[tuple[str, str]] = []
    for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        path = os.path.join(directory, unquote(action["path"]))
        span = _span_in_delta_log(path, action)
        if span is not None:
            spans.append(span)
            continue
        try:
            spans += _spans_in_file(path, action)
        except (OSError, pa.ArrowInvalid) as error:
            unreadable.append((path, unreadable_reason(error)))
    archived, topic_id = _recorded_by_archive(table)
    return LakeTable(
        topic=topic,
        directory=directory,
        version=table.version(),
        compared=compared,
        not_compared=not_compared,
        spans=tuple(spans),
        archived=archived,
        topic_id=topic_id,
        unreadable=tuple(unreadable),
    )


def _recorded_by_archive(table: DeltaTable) -> tuple[dict[int, tuple[int, int]], str]:
    """The archived offsets and the topic's id, as recorded by `kraftlog pipeline archive`."""
    archived: dict[int, tuple[int, int]] = {}
    topic_id = ""
    if is_durable(table):
        durable = state_of(table)
        assert durable is not None
        starts = {index: durable.start.get(index, 0) for index in durable.offsets}
        ends = durable.offsets
        archived = {
            index: (starts[index], ends[index]) for index in ends if starts[index] < ends[index]
        }
        return archived, durable.topic_id
    for commit in table.history():
        state = commit.get(_STATE_KEY)
        if not isinstance(state, dict):
            continue
        topic_id = topic_id or state.get("topicId", "")
        for partition, (start, end) in state.get("ranges", {}).items():
            old_start, old_end = archived.get(int(partition), (start, end))
            archived[int(partition)] = (min(old_start, start), max(old_end, end))
    return archived, topic_id


def _columns(schema: pa.Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of `CONTENT` that are as in the log, and those that are not.

    The latter are decoded, or are a missing key or value; other missing columns are left out.
    """
    log = arrow_schema(with_headers=True, for_table=True)
    compared = []
    not_compared = []
    for name in CONTENT:
        if name in schema.names and _is_as_in_log(schema.field(name).type, log.field(name).type):
            compared.append(name)
        elif name in schema.names or name in {"key", "value"}:
            not_compared.append(name)
    return tuple(compared), tuple(not_compared)


def _is_as_in_log(kind: pa.DataType, expected: pa.DataType) -> bool:
    if expected == pa.binary():  # UTF-8 text has the same bytes
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        others = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
        return any(is_kind(kind) for is_kind in (*texts, *others))
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
    return bool(kind == expected)


def _span_in_delta_log(path: str, action: dict[str, Any]) -> FileSpan | None:
    """The span of a file with records of one partition, if Delta's log has its statistics."""
    partition = action.get("partition.partition", action.get("min.partition"))
    if partition != action.get("max.partition", partition):
        return None
    size, records = action["size_bytes"], action["num_records"]
    first, last = action.get("min.offset"), action.get("max.offset")
    if partition is None or first is None or last is None or records is None:
        return None
    return FileSpan(path, partition, records, first, last, size)


def _spans_in_file(path: str, action: dict[str, Any]) -> list[FileSpan]:
    """The spans of a file, read from its columns `partition` and `offset`."""
    size = action["size_bytes"]
    with ParquetFile(path) as file:
        rows = file.read([name for name in (PARTITION, OFFSET) if name in file.schema_arrow.names])
    if PARTITION not in rows.column_names:
        partition_column = pa.array([action["partition.partition"]] * len(rows), pa.int32())
        rows = rows.append_column(PARTITION, partition_column)
    grouped = rows.group_by(PARTITION).aggregate(
        [(OFFSET, "count"), (OFFSET, "min"), (OFFSET, "max")]
    )
    return [
        FileSpan(
            path,
            each[PARTITION],
            each["offset_count"],
            each["offset_min"],
            each["offset_max"],
            size * each["offset_count"] // max(len(rows), 1),
        )
        for each in grouped.to_pylist()
    ]


def unreadable_reason(error: Exception) -> str:
    """Why a file cannot be read, such as "does not exist"."""
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {str(error).splitlines()[0]}"


def rows_of(
    path: str, span: tuple[int, int, int], columns: Sequence[str]
) -> Iterable[pa.RecordBatch]:
    """The rows of a span (partition, first offset, end offset) of a file, in the file's order.

    The columns have the types that kraftlog's Spark source gives them; row groups without such
    offsets are not read.
    """
    partition, start, end = span
    log_schema = arrow_schema(with_headers=True, for_table=True)
    schema = pa.schema([log_schema.field(name) for name in (OFFSET, *columns)])
    with ParquetFile(path) as file:
        names = file.schema_arrow.names
        has_partition = PARTITION in names
        groups = [
            number for number in range(file.num_row_groups) if _may_have(file, number, start, end)
        ]
        columns_read = [*schema.names, *([PARTITION] if has_partition else [])]
        has_times = OUT_OF_RANGE in names  # files of older versions do not have the column
        for batch in file.iter_batches(batch_size=1 << 16, row_groups=groups, columns=columns_read):
            offsets = values_of(batch.column(OFFSET))
            kept = (offsets >= start) & (offsets < end) & ~nulls_of(batch.column(OFFSET))
            if has_partition:
                kept &= values_of(batch.column(PARTITION)) == partition
            rows = batch if kept.all() else batch.filter(flags(kept))
            if len(rows):
                yield pa.RecordBatch.from_arrays(
                    [
                        rows.column(field.name).cast(field.type)
                        if has_times or field.name != OUT_OF_RANGE
                        else pa.nulls(len(rows), field.type)
                        for field in schema
                    ],
                    schema=schema,
                )


def _may_have(file: ParquetFile, group: int, start: int, end: int) -> bool:
    """Whether a row group may have offsets of a range, by its statistics."""
    span = group_span(file, group)
    return span is None or (span[0] < end and span[1] >= start)


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
