"""Compares a range of offsets in the lake with the log, in a Spark task.

If the checksums of both sides are equal, the range is done, and no more than a batch of rows was in
memory. Otherwise the rows of the range are compared one by one, to name the differences.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kraftlog.client import offsets
from kraftlog.client.range_reader import RangeReader
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.records.arrow import values_of
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.lake_check.checksums import Checksums
from kraftlog.spark.lake_check.rows_compared import OFFSET, LakeRows, RowComparison, offsets_of
from kraftlog.spark.lake_check.tables import rows_of, unreadable_reason
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker
from kraftlog.spark.schema import OUT_OF_RANGE, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.findings import Finding
    from kraftlog.spark.lake_check.plan import Range

#: With more runs than this, sorting the rows is cheaper.
_MAX_RUNS = 1000
#: A larger step between two offsets begins a new run, as the rows between them may come later in
#: the file. Writers of Parquet move batches of rows, which have more offsets than this.
_MAX_STEP = 1000
_NO_OFFSETS = np.empty(0, dtype=np.int64)


class ComparedTopic(NamedTuple):
    """What the tasks need to compare the ranges of a topic: its log and the table's columns."""

    servers: str
    timeout_s: float
    isolation_level: int
    columns: tuple[str, ...]
    #: Whether compaction may have deleted records since they were archived.
    is_compacted: bool
    #: Log start and end offset of each partition.
    log: Mapping[int, tuple[int, int]]
    #: Offsets of each partition that were archived as undecodable.
    dead_letters: Mapping[int, Numbers]


class RangeResult(NamedTuple):
    topic: str
    partition: int
    start: int
    #: Records in the lake, without the `expired` and `compacted` ones, and in the log.
    lake: int
    log: int
    #: Records of the lake that the log no longer has, because of retention and of compaction.
    expired: int
    compacted: int
    dead_letters: int
    findings: tuple[Finding, ...]
    #: Checksums of the records that both sides can still have.
    lake_sums: Checksums
    log_sums: Checksums


class _NotInOrderError(Exception):
    """Rows overlap those of another file, occur twice, or have too many runs."""


class _Run:
    """Consecutive rows with ascending offsets and no step over `_MAX_STEP`."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.last = -1
        self.sums = Checksums()


def compare(offset_range: Range, topic: ComparedTopic) -> RangeResult:
    """Compare a range with the log; repeat that if retention deletes records meanwhile."""
    log_start, log_end = topic.log[offset_range.partition]
    while True:
        try:
            return _Comparison(offset_range, topic, log_start, log_end).result()
        except RefusedError as error:
            name = (offset_range.topic, offset_range.partition)
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            cluster = cluster_of(topic.servers, topic.timeout_s)
            start = offsets.find(cluster, {name: offsets.EARLIEST})[name].offset
            if start <= log_start:
                raise
            log_start = start


class _Comparison:
    def __init__(
        self, offset_range: Range, topic: ComparedTopic, log_start: int, log_end: int
    ) -> None:
        self._range = offset_range
        self._topic = topic
        #: The part of the range that the log still has.
        self._start = max(offset_range.start, log_start)
        self._end = min(offset_range.end, log_end)
        self._log_end = log_end
        dead = topic.dead_letters.get(offset_range.partition, _NO_OFFSETS)
        self._dead_letters = dead[(dead >= offset_range.start) & (dead < offset_range.end)]

    def result(self) -> RangeResult:
        try:
            expired, lake = self._lake_sums()
        except (_NotInOrderError, OSError, pa.ArrowInvalid):
            return self._compare_by_row()
        log = Checksums()
        for rows in self._log_rows():
            _add(log, rows)
        if lake != log:
            return self._compare_by_row()
        return self._result_of(lake, log, expired)

    def _result_of(
        self,
        lake: Checksums,
        log: Checksums,
        expired: int,
        compacted: int = 0,
        findings: tuple[Finding, ...] = (),
    ) -> RangeResult:
        return RangeResult(
            topic=self._range.topic,
            partition=self._range.partition,
            start=self._range.start,
            lake=lake.count,
            log=log.count,
            expired=expired,
            compacted=compacted,
            dead_letters=len(self._dead_letters),
            findings=findings,
            lake_sums=lake,
            log_sums=log,
        )

    def _lake_sums(self) -> tuple[int, Checksums]:
        """The number of rows before the log start, and the checksums of the others.

        The program that wrote or compacted a file may have moved batches of rows. So each run of
        ascending offsets has its own sums, which are then put in order.
        """
        runs: list[_Run] = []
        expired = 0
        for path in self._range.files:
            for rows in self._rows_of(path):
                for part in _ascending(rows):
                    before = int(np.searchsorted(values_of(part.column(OFFSET)), self._start))
                    expired += before
                    _add_run(runs, part.slice(before))
        sums = Checksums()
        last = -1
        for run in sorted(runs, key=lambda run: run.first):
            if run.first <= last:
                raise _NotInOrderError
            last = run.last
            sums.append(run.sums)
        return expired, sums

    def _rows_of(self, path: str) -> Iterator[pa.RecordBatch]:
        span = (self._range.partition, self._range.start, self._range.end)
        yield from rows_of(path, span, self._topic.columns)

    def _log_rows(self) -> Iterator[pa.RecordBatch]:
        if self._start >= self._end:
            return
        log_range = OffsetRange(self._range.topic, self._range.partition, self._start, self._end)
        row_maker = RowMaker(
            log_range,
            with_headers="headers" in self._topic.columns,
            for_table=OUT_OF_RANGE in self._topic.columns,
        )
        reader = RangeReader(
            cluster_of(self._topic.servers, self._topic.timeout_s),
            log_range.name,
            log_range.start,
            log_range.end,
            isolation_level=self._topic.isolation_level,
        )
        names = (OFFSET, *self._topic.columns)
        for fetched in reader:
            for rows in row_maker.rows(fetched):
                yield rows.select(names)

    def _compare_by_row(self) -> RangeResult:
        everything = self._lake_rows()
        lake = everything.from_offset(self._start)
        log = pa.Table.from_batches(self._log_rows(), self._schema())
        compared = RowComparison(self._range, lake, log)
        compared.find_duplicates()
        compared.find_missing(self._dead_letters)
        compacted = compared.find_extra(self._log_end, is_compacted=self._topic.is_compacted)
        compared.find_differences()
        rows = compared.common()[0] if self._topic.is_compacted else lake.rows
        return self._result_of(
            _sums(rows),
            _sums(log),
            len(everything.rows) - len(lake.rows),
            compacted,
            tuple(compared.findings),
        )

    def _lake_rows(self) -> LakeRows:
        """The rows of all files of the range, sorted by offset."""
        tables = []
        numbers_by_file = []
        unreadable = {}
        for file_number, path in enumerate(self._range.files):
            try:
                table = pa.Table.from_batches(self._rows_of(path), self._schema())
            except (OSError, pa.ArrowInvalid) as error:
                unreadable[path] = unreadable_reason(error)
                continue
            tables.append(table)
            numbers_by_file.append(np.full(len(table), file_number))
        rows = pa.concat_tables(tables) if tables else self._schema().empty_table()
        order = np.argsort(offsets_of(rows), kind="stable")
        file_numbers = np.concatenate([_NO_OFFSETS, *numbers_by_file])
        return LakeRows(
            rows.take(pa.array(order)), file_numbers[order], self._range.files, unreadable
        )

    def _schema(self) -> pa.Schema:
        log = arrow_schema(with_headers=True, for_table=True)
        return pa.schema([log.field(name) for name in (OFFSET, *self._topic.columns)])


def _ascending(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut rows where their offsets do not ascend, or make a step over `_MAX_STEP`."""
    steps = np.diff(values_of(rows.column(OFFSET)))
    cuts = np.flatnonzero((steps <= 0) | (steps > _MAX_STEP)) + 1
    if len(cuts) > _MAX_RUNS:
        raise _NotInOrderError
    for start, end in pairwise([0, *cuts.tolist(), len(rows)]):
        yield rows.slice(start, end - start)


def _add_run(runs: list[_Run], rows: pa.RecordBatch) -> None:
    """Add ascending rows to the last run if they continue it; else begin a run with them."""
    if not len(rows):
        return
    row_offsets = rows.column(OFFSET)
    first, last = row_offsets[0].as_py(), row_offsets[-1].as_py()
    if not runs or not 0 < first - runs[-1].last <= _MAX_STEP:
        if len(runs) == _MAX_RUNS:
            raise _NotInOrderError
        runs.append(_Run(first))
    _add(runs[-1].sums, rows)
    runs[-1].last = last


def _add(sums: Checksums, rows: pa.RecordBatch) -> None:
    if len(rows):
        sums.add(dict(zip(rows.schema.names, rows.columns, strict=True)))


def _sums(rows: pa.Table) -> Checksums:
    sums = Checksums()
    for batch in rows.to_batches():
        _add(sums, batch)
    return sums
