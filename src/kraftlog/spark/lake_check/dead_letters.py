"""The archive's dead letters: records that could not be decoded, which are in a table of their own.

They are few, so a task gets their offsets and a digest of each, and compares both with the log.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from kraftlog.errors import ConfigError
from kraftlog.records.arrow import row_numbers, values_of
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import DELTA, check_pyiceberg, format_of
from kraftlog.spark.lake_check.findings import (
    DIFFERENT,
    DUPLICATE,
    NOT_IN_LOG,
    Finding,
    consecutive_ranges,
)
from kraftlog.spark.lake_check.lake_files import OFFSET, PARTITION
from kraftlog.spark.lake_check.tables import CONTENT
from kraftlog.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.plan import Range

_NO_OFFSETS = np.empty(0, dtype=np.int64)


class DeadLetters(NamedTuple):
    """The dead letters of a partition in order of offsets; `digests` are of `columns`."""

    path: str = ""
    offsets: Numbers = _NO_OFFSETS
    digests: tuple[bytes, ...] = ()
    columns: tuple[str, ...] = ()

    def between(self, start: int, end: int) -> DeadLetters:
        low, high = np.searchsorted(self.offsets, [start, end]).tolist()
        return self._replace(offsets=self.offsets[low:high], digests=self.digests[low:high])


class DeadLetterCheck:
    """Compares the dead letters of a range with the log's records at their offsets."""

    def __init__(self, letters: DeadLetters, offset_range: Range) -> None:
        self._letters = letters
        self._range = offset_range
        #: By offset, the digest of the log's record.
        self._in_log: dict[int, bytes] = {}

    def are_among(self, rows: pa.RecordBatch) -> bool:
        """Whether rows of the log, in order of offsets, may include dead letters."""
        if not len(self._letters.offsets) or not len(rows):
            return False
        first, last = values_of(rows.column(OFFSET))[[0, -1]].tolist()
        return bool(len(self._letters.between(first, last + 1).offsets))

    def take(self, rows: pa.RecordBatch) -> Numbers:
        """Note the log's records of dead letters; return the numbers of the other rows."""
        is_dead = np.isin(values_of(rows.column(OFFSET)), self._letters.offsets)
        dead = rows.take(row_numbers(np.flatnonzero(is_dead).tolist()))
        offsets = values_of(dead.column(OFFSET)).tolist()
        self._in_log.update(zip(offsets, _digests(dead, self._letters.columns), strict=True))
        others: Numbers = np.flatnonzero(~is_dead)
        return others

    def findings(self, start: int, log_end: int, *, is_compacted: bool) -> Iterator[Finding]:
        """What is wrong with the dead letters from the start of the log on."""
        offsets = self._letters.offsets
        repeated = offsets[1:][np.diff(offsets) == 0]
        yield from self._finding(DUPLICATE, repeated.tolist())
        different, extra = [], []
        for offset, digest in zip(offsets.tolist(), self._letters.digests, strict=True):
            if offset in self._in_log:
                different += [offset] if self._in_log[offset] != digest else []
            elif offset >= log_end or (offset >= start and not is_compacted):
                extra.append(offset)
        yield from self._finding(DIFFERENT, different)
        yield from self._finding(NOT_IN_LOG, extra)

    def _finding(self, kind: str, offsets: Sequence[int]) -> Iterator[Finding]:
        if offsets:
            yield Finding(
                kind,
                self._range.topic,
                self._range.partition,
                len(offsets),
                consecutive_ranges(np.array(offsets)),
                (self._letters.path,),
                "among the dead letters",
            )


def read_dead_letters(lake: str, topic: str) -> dict[int, DeadLetters]:
    """The dead letters of a topic, by partition."""
    path = layout.dead_letters_path(lake)
    table_format = format_of(path)
    if table_format is None:
        return {}
    try:
        rows = _rows_of_delta(path, topic) if table_format == DELTA else _rows(path, topic)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    columns = tuple(name for name in CONTENT if name in rows.column_names)
    log_schema = arrow_schema(with_headers=True, for_table=True)
    fields = [log_schema.field(name) for name in (PARTITION, OFFSET, *columns)]
    rows = rows.select([field.name for field in fields]).cast(pa.schema(fields))
    for index, name in enumerate((PARTITION, OFFSET)):  # no partition and no record has number -1
        rows = rows.set_column(index, fields[index], pc.fill_null(rows.column(name), -1))
    rows = rows.sort_by(OFFSET)
    by_partition = {}
    for partition in pc.unique(rows.column(PARTITION)).to_pylist():
        chosen = rows.filter(pc.equal(rows.column(PARTITION), pa.scalar(partition, pa.int32())))
        offsets = chosen.column(OFFSET).to_numpy()
        digests = tuple(_digests(chosen, columns))
        by_partition[partition] = DeadLetters(path, offsets, digests, columns)
    return by_partition


def _rows_of_delta(path: str, topic: str) -> pa.Table:
    return pa.table(DeltaTable(path).to_pyarrow_table(filters=[("topic", "=", topic)]))


def _rows(path: str, topic: str) -> pa.Table:
    check_pyiceberg()
    from pyiceberg.expressions import EqualTo

    from kraftlog.spark.lake.iceberg.table import opened

    return opened(path).scan(row_filter=EqualTo("topic", topic)).to_arrow()


def _digests(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> Iterator[bytes]:
    for row in rows.select(list(columns)).to_pylist():
        content = [row[name] or None if name == "headers" else row[name] for name in columns]
        yield hashlib.sha256(repr(content).encode()).digest()
