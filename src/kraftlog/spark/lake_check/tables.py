"""A table of one topic's records: its columns, its files, and their offsets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kraftlog.records.arrow import nulls_of, values_of
from kraftlog.spark.lake import layout
from kraftlog.spark.lake_check.findings import (
    COLUMNS,
    UNREADABLE,
    WITHOUT_POSITION,
    Finding,
    consecutive_ranges,
)
from kraftlog.spark.lake_check.findings import (
    DELTA_LOG as DAMAGED_LOG,
)
from kraftlog.spark.lake_check.lake_files import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    FileCount,
    LakeFile,
    UnreadableFileError,
)
from kraftlog.spark.schema import OUT_OF_RANGE, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.column_ids import ColumnIds
    from kraftlog.spark.lake_check.state_chain import State

#: The columns of a record whose content is compared, if a table has them.
CONTENT = ("key", "value", TIMESTAMP, "timestampType", "headers", OUT_OF_RANGE)
#: Values of --decode with which the table has all columns of the log.
_UNDECODED = ("raw", "string")
#: A larger step between offsets of a file divides it into spans.
_MAX_STEP = 1_000_000
_MAX_SPANS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Delta's log cuts times down to milliseconds.
_TIME_STEP_US = 1000


class FileSpan(NamedTuple):
    """The records of one partition in a file: how many, and the first and last offset."""

    path: str
    partition: int
    records: int
    first: int
    last: int
    size_bytes: int


class FileAction(NamedTuple):
    """A file as the table's log describes it; by column: bounds of its values, count of nulls."""

    path: str
    size_bytes: int
    records: int | None
    bounds: dict[str, tuple[int, int]]
    nulls: dict[str, int]
    #: The values of the columns `partition` and `date`, if the table is partitioned by them.
    partition: int | None
    date: object


class LakeTable(NamedTuple):
    topic: str
    directory: str
    #: The format's id of the table, which a copy of it keeps.
    table_id: str
    version: int
    #: The columns of a record that are compared; those that the table lacks or has decoded, and
    #: those that are not of the log.
    compared: tuple[str, ...]
    not_compared: tuple[str, ...]
    files: tuple[FileAction, ...]
    spans: tuple[FileSpan, ...]
    #: Whether the table's log has the partition of each file, instead of a column in the file.
    is_partitioned: bool
    #: By path, the rows that deletion vectors, or files of deleted positions, hide.
    deleted: dict[str, NDArray[np.bool_]]
    #: Whether the table is one of `kraftlog pipeline archive`.
    is_archive: bool
    #: The offsets of each partition that the commits record as archived, if any: the start and the
    #: exclusive end.
    archived: dict[int, tuple[int, int]]
    #: The newest state of the archive; empty if the commits do not have it.
    state: State
    #: The topic's id when it was archived, as text; empty if unknown.
    topic_id: str
    #: What is wrong with the table as a whole, or with files whose offsets are unknown.
    findings: tuple[Finding, ...]
    #: The kind of findings about the table's log, and what the log is called.
    damaged_log: str = DAMAGED_LOG
    log_name: str = "Delta's log"
    #: The ids of columns, in formats whose readers go by them.
    column_ids: ColumnIds | None = None

    def file(self, path: str) -> LakeFile:
        deleted = self.deleted.get(path)
        return LakeFile(
            path,
            is_partitioned=self.is_partitioned,
            deleted=deleted,
            column_ids=self.column_ids,
        )


class DamagedTableError(Exception):
    """A table is so damaged that there is nothing to compare; `findings` say how."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


def extended_spans(
    archived: Mapping[int, tuple[int, int]],
    ends: Mapping[int, int],
    starts: Mapping[int, int],
    kept: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, tuple[int, int]]:
    """The archived offsets that commits have, extended to those that the table itself has.

    `kept` has the first offsets that retention has left.
    """
    spans = dict(archived)
    for index, end in ends.items():
        start, old_end = spans.get(index, (end, end))
        start = min(start, starts.get(index, 0))
        spans[index] = (max(start, kept.get(index, start)), max(old_end, end))
    return {index: span for index, span in spans.items() if span[0] < span[1]}


def archived_until(table: LakeTable, committed: Mapping[int, int]) -> LakeTable:
    archived = dict(table.archived)
    for partition, end in committed.items():
        firsts = [span.first for span in table.spans if span.partition == partition]
        start, old_end = archived.get(partition, (min([end, *firsts]), end))
        archived[partition] = (start, max(old_end, end))
    return table._replace(archived=archived)


def with_spans(table: LakeTable) -> LakeTable:
    """Add the spans of the files: they are in the table's log, or else read from the files."""
    spans: list[FileSpan] = []
    findings: list[Finding] = []
    for action in table.files:
        span = _span_of(action)
        if span is not None:
            spans.append(span)
            continue
        found, finding = exact_spans(table, action)
        spans += found
        findings += [finding] if finding is not None else []
    return table._replace(spans=tuple(spans), findings=(*table.findings, *findings))


def is_without_position(schema: pa.Schema, partition_columns: Iterable[str]) -> bool:
    fields = {field.name: field.type for field in schema}
    return not (
        all(pa.types.is_integer(fields.get(name, pa.null())) for name in (PARTITION, OFFSET))
        and OFFSET not in partition_columns
    )


def wrong_columns(
    topic: str, schema: pa.Schema, partition_columns: Iterable[str], decode: str
) -> list[Finding]:
    """Columns that an archive with this --decode has; empty for tables of other programs."""
    if not decode:
        return []
    expected = arrow_schema(with_headers=True)  # older archives lack the column for odd times
    names = {PARTITION, OFFSET, *CONTENT} - ({"value"} if decode not in _UNDECODED else set())
    texts = []
    for field in expected:
        if field.name not in names:
            continue
        if field.name not in schema.names:
            texts.append(f"the table has no column {field.name}")
        elif not _is_as_in_log(schema.field(field.name).type, field.type):
            kind = schema.field(field.name).type
            texts.append(f"column {field.name} has type {kind}, not {field.type}")
        elif field.name in partition_columns:
            texts.append(f"the table is partitioned by {field.name}")
    return [Finding(COLUMNS, topic, -1, 0, note=text) for text in texts]


def compared_columns(
    schema: pa.Schema, partition_columns: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of `CONTENT` that are as in the log; and all others of the table.

    The latter are decoded or not of the log, or are a missing key or value.
    """
    log = arrow_schema(with_headers=True, for_table=True)
    in_files = [field.name for field in schema if field.name not in partition_columns]
    compared = [
        name
        for name in CONTENT
        if name in in_files and _is_as_in_log(schema.field(name).type, log.field(name).type)
    ]
    known = {*compared, PARTITION, OFFSET, layout.DATE}
    missing = [name for name in ("key", "value") if name not in schema.names]
    others = [field.name for field in schema if field.name not in known]
    return tuple(compared), (*missing, *others)


def _is_as_in_log(kind: pa.DataType, expected: pa.DataType) -> bool:
    if expected == pa.binary():  # UTF-8 text has the same bytes
        texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        others = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
        return any(is_kind(kind) for is_kind in (*texts, *others))
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
    return bool(kind == expected)


def _span_of(action: FileAction) -> FileSpan | None:
    """The span of a file with records of one partition, if the log has its statistics."""
    low, high = action.bounds.get(PARTITION, (action.partition, action.partition))
    partition = action.partition if action.partition is not None else low
    if partition is None or low != high or OFFSET not in action.bounds or not action.records:
        return None
    first, last = action.bounds[OFFSET]
    if first > last:
        return None
    return FileSpan(action.path, partition, action.records, first, last, action.size_bytes)


def exact_spans(table: LakeTable, action: FileAction) -> tuple[list[FileSpan], Finding | None]:
    """The spans of a file, read from its columns `partition` and `offset`.

    The finding is about rows without such a value, or about a file that cannot be read.
    """
    by_partition: dict[int, list[Numbers]] = {}
    without: list[Numbers] = []
    count = 0
    try:
        for rows, numbers in table.file(action.path).positions():
            count += len(rows)
            is_known = ~nulls_of(rows.column(OFFSET))
            offsets = values_of(rows.column(OFFSET))
            if table.is_partitioned:
                found = np.full(len(rows), action.partition or 0)
                is_known &= action.partition is not None
            else:
                is_known &= ~nulls_of(rows.column(PARTITION))
                found = values_of(rows.column(PARTITION))
            without.append(numbers[~is_known])
            for partition in np.unique(found[is_known]).tolist():
                chosen = offsets[is_known & (found == partition)]
                by_partition.setdefault(partition, []).append(chosen)
    except UnreadableFileError as error:
        finding = Finding(UNREADABLE, table.topic, -1, 0, files=(action.path,), note=str(error))
        return [], finding
    spans = []
    for partition, parts in sorted(by_partition.items()):
        for chosen in _spans(np.sort(np.concatenate(parts))):
            size = action.size_bytes * len(chosen) // count
            first, last = int(chosen[0]), int(chosen[-1])
            spans.append(FileSpan(action.path, partition, len(chosen), first, last, size))
    lost = np.concatenate([np.empty(0, np.int64), *without])
    if not len(lost):
        return spans, None
    finding = Finding(WITHOUT_POSITION, table.topic, -1, len(lost), files=(action.path,))
    return spans, finding._replace(rows=consecutive_ranges(lost))


def _spans(offsets: Numbers) -> list[Numbers]:
    """Cut ascending offsets at their largest steps, as a few may be far from the others."""
    steps = np.diff(offsets)
    cuts = np.flatnonzero(steps > _MAX_STEP)
    if len(cuts) >= _MAX_SPANS:
        cuts = np.sort(cuts[np.argsort(steps[cuts])[-_MAX_SPANS + 1 :]])
    return np.split(offsets, cuts + 1)


def misdescriptions(table: LakeTable, action: FileAction, count: FileCount) -> list[str]:
    """What the table's log says about a file that is not so.

    `count` has bounds only if all rows of the file were counted.
    """
    texts = [count.wrong] if count.wrong else []
    if action.size_bytes != count.size_bytes:
        texts.append(f"it has {count.size_bytes} bytes, {table.log_name} says {action.size_bytes}")
    if action.records not in {None, count.all_rows}:
        texts.append(f"it has {count.all_rows} rows, {table.log_name} says {action.records}")
    if action.path not in table.deleted:  # else the bounds may be those of hidden rows
        texts += _wrong_bounds(table, action, count)
    nulls = {PARTITION: 0, OFFSET: 0, TIMESTAMP: count.null_times}
    for name, said in action.nulls.items():
        if said != nulls[name] and name in count.bounds:
            texts.append(f"{nulls[name]} {name}s are null, {table.log_name} says {said}")
    times = count.bounds.get(TIMESTAMP)
    if table.is_archive and action.date is not None and times is not None:
        dates = {(_EPOCH + timedelta(microseconds=each)).date() for each in times}
        if dates != {action.date}:
            found = " to ".join(map(str, sorted(dates)))
            texts.append(f"its records are of {found}, {table.log_name} says {action.date}")
    return texts


def _wrong_bounds(table: LakeTable, action: FileAction, count: FileCount) -> list[str]:
    texts = []
    for name, said in action.bounds.items():
        found = count.bounds.get(name)
        step = _TIME_STEP_US if name == TIMESTAMP else 1
        if found is not None and any(
            abs(one - other) >= step for one, other in zip(said, found, strict=True)
        ):
            texts.append(
                f"its {name}s are {found[0]} to {found[1]}, {table.log_name} says "
                f"{said[0]} to {said[1]}"
            )
    return texts
