"""Compares a range of offsets in the lake with the log, in a Spark task.

The rows of both sides are compared in order of offsets, byte for byte, and no more than a batch of
each is in memory. A program that compacts files may have moved batches of rows: then all lake rows
of the range are in memory, and these pieces are put in order. If the sides differ, or if rows are
not in order at all, they are sorted and compared one by one, to name the differences.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kraftlog.client import offsets
from kraftlog.client.range_reader import RangeReader
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.records.arrow import row_numbers, values_of
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.lake_check.blocks import Blocks
from kraftlog.spark.lake_check.checksums import Checksums
from kraftlog.spark.lake_check.dead_letters import DeadLetterCheck, DeadLetters
from kraftlog.spark.lake_check.lake_files import OFFSET, LakeFile, UnreadableFileError
from kraftlog.spark.lake_check.rows_compared import LakeRows, RowComparison, offsets_of
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker
from kraftlog.spark.schema import OUT_OF_RANGE, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from kraftlog.client.security import Security
    from kraftlog.spark.lake_check.column_ids import ColumnIds
    from kraftlog.spark.lake_check.findings import Finding
    from kraftlog.spark.lake_check.lake_files import FileCount
    from kraftlog.spark.lake_check.plan import Range


#: With more pieces than this, sorting the rows is cheaper.
_MAX_PIECES = 1000
#: A larger step between two offsets begins a new piece. Writers of Parquet move batches of rows,
#: which have more offsets than this.
_MAX_STEP = 1000


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
    #: Records of each partition that were archived as undecodable.
    dead_letters: Mapping[int, DeadLetters]
    #: Whether the partition is in Delta's log instead of a column of the files.
    is_partitioned: bool = False
    #: By path of a file, the rows that deletion vectors hide.
    deleted: Mapping[str, NDArray[np.bool_]] = {}
    #: The ids that the columns of files should have, in formats whose readers go by them.
    column_ids: ColumnIds | None = None
    #: Whether the result has digests of blocks.
    is_digested: bool = False
    security: Security | None = None

    def end_note(self, partition: int) -> str:
        """Why there is no record of a partition beyond the log's end."""
        if partition not in self.log:
            return f"the topic has no partition {partition}"
        return f"the log ends at offset {self.log[partition][1]}"


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
    #: Checksums, and digests of blocks, of the records that both sides can still have.
    lake_sums: Checksums
    log_sums: Checksums
    lake_blocks: Blocks
    log_blocks: Blocks
    #: What was read of each file, and files that cannot be read, with the reason.
    files: tuple[FileCount, ...]
    unreadable: dict[str, str]


class _NotInOrderError(Exception):
    """The rows of the lake are not in order of offsets."""


class _NotEqualError(Exception):
    """The rows of both sides differ."""


def compare(offset_range: Range, topic: ComparedTopic) -> RangeResult:
    """Compare a range with the log; repeat that if retention deletes records meanwhile."""
    log_start, log_end = topic.log.get(offset_range.partition, (0, 0))
    while True:
        try:
            return _Comparison(offset_range, topic, log_start, log_end).result()
        except RefusedError as error:
            name = (offset_range.topic, offset_range.partition)
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            cluster = cluster_of(topic.servers, topic.timeout_s, security=topic.security)
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
        self._files: list[LakeFile] = []
        self._expired = 0
        letters = topic.dead_letters.get(offset_range.partition, DeadLetters())
        self._letters = letters.between(offset_range.start, offset_range.end)
        self._dead = DeadLetterCheck(self._letters, offset_range)

    def result(self) -> RangeResult:
        for lake_rows in (self._lake_rows_as_they_are, self._lake_rows_in_pieces):
            try:
                return self._compare_in_order(lake_rows)
            except _NotInOrderError:
                continue
            except (_NotEqualError, UnreadableFileError):
                break
        return self._compare_by_row()

    def _open_files(self) -> None:
        topic = self._topic
        self._expired = 0
        self._files = [
            LakeFile(
                path,
                is_partitioned=topic.is_partitioned,
                deleted=topic.deleted.get(path),
                is_exact=self._range.is_exact,
                column_ids=topic.column_ids,
            )
            for path in self._range.files
        ]

    def _result_of(
        self,
        lake: tuple[Checksums, Blocks],
        log: tuple[Checksums, Blocks],
        compacted: int = 0,
        findings: tuple[Finding, ...] = (),
        unreadable: Mapping[str, str] | None = None,
    ) -> RangeResult:
        of_dead_letters = self._dead.findings(
            self._start, self._log_end, is_compacted=self._topic.is_compacted
        )
        unreadable = dict(unreadable or {})
        lake[1].close()
        log[1].close()
        return RangeResult(
            topic=self._range.topic,
            partition=self._range.partition,
            start=self._range.start,
            lake=lake[0].count,
            log=log[0].count,
            expired=self._expired,
            compacted=compacted,
            dead_letters=len(self._letters.offsets),
            findings=(*findings, *of_dead_letters),
            lake_sums=lake[0],
            log_sums=log[0],
            lake_blocks=lake[1],
            log_blocks=log[1],
            files=tuple(file.count for file in self._files if file.path not in unreadable),
            unreadable=unreadable,
        )

    def _compare_in_order(self, lake_rows: Callable[[], Iterator[pa.RecordBatch]]) -> RangeResult:
        if self._range.start < 0:  # of rows with negative offsets, none is the log's
            raise _NotEqualError
        self._open_files()
        sums, blocks = Checksums(), Blocks()
        lake_rows_in_log = self._without_expired(lake_rows())
        for lake, log in _side_by_side(lake_rows_in_log, self._log_rows()):
            if not sums.add_if_equal(_columns(lake), _columns(log)):
                raise _NotEqualError
            if self._topic.is_digested:
                blocks.add(log)
        return self._result_of((sums, blocks), (sums, blocks))

    def _lake_rows_as_they_are(self) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            for rows, _ in self._rows_of(file):
                if (np.diff(values_of(rows.column(OFFSET))) <= 0).any():
                    raise _NotInOrderError
                yield rows

    def _lake_rows_in_pieces(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, if pieces with ascending offsets only need to be moved."""
        pieces: list[pa.RecordBatch] = []
        for file in self._files:
            for rows, _ in self._rows_of(file):
                pieces += _ascending(rows)
                if len(pieces) > _MAX_PIECES:
                    raise _NotInOrderError
        yield from sorted(pieces, key=lambda rows: values_of(rows.column(OFFSET))[0])

    def _without_expired(self, lake_rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows from the log's start on; earlier ones are counted. Check that none overlap."""
        last = -1
        for rows in lake_rows:
            row_offsets = values_of(rows.column(OFFSET))
            if row_offsets[0] <= last:
                raise _NotInOrderError
            last = int(row_offsets[-1])
            before = int(np.searchsorted(row_offsets, self._start))
            self._expired += before
            if before < len(rows):
                yield rows.slice(before)

    def _rows_of(self, file: LakeFile) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        span = self._range
        return file.rows(span.partition, span.start, span.end, self._topic.columns)

    def _log_rows(self) -> Iterator[pa.RecordBatch]:
        """The log's rows, without those that are dead letters in the lake."""
        if self._start >= self._end:
            return
        log_range = OffsetRange(self._range.topic, self._range.partition, self._start, self._end)
        wanted = {*self._topic.columns, *self._letters.columns}
        row_maker = RowMaker(
            log_range, with_headers="headers" in wanted, for_table=OUT_OF_RANGE in wanted
        )
        reader = RangeReader(
            cluster_of(self._topic.servers, self._topic.timeout_s, security=self._topic.security),
            log_range.name,
            log_range.start,
            log_range.end,
            isolation_level=self._topic.isolation_level,
        )
        names = (OFFSET, *self._topic.columns)
        for fetched in reader:
            for rows in row_maker.rows(fetched):
                if self._dead.are_among(rows):
                    yield rows.take(row_numbers(self._dead.take(rows).tolist())).select(names)
                else:
                    yield rows.select(names)

    def _compare_by_row(self) -> RangeResult:
        self._open_files()
        everything = self._all_lake_rows()
        lake = everything.from_offset(self._start)
        log = pa.Table.from_batches(self._log_rows(), self._schema())
        compared = RowComparison(self._range, everything, lake, log)
        compared.find_duplicates()
        compared.find_missing()
        compared.find_negative()
        compacted = compared.find_extra(
            self._log_end,
            self._topic.end_note(self._range.partition),
            self._letters.offsets,
            is_compacted=self._topic.is_compacted,
        )
        compared.find_differences()
        self._expired = compared.expired
        return self._result_of(
            self._sums(compared.common()[0] if self._topic.is_compacted else lake.rows),
            self._sums(log),
            compacted,
            tuple(compared.findings),
            everything.unreadable,
        )

    def _all_lake_rows(self) -> LakeRows:
        """The rows of all files of the range, sorted by offset."""
        tables = [self._schema().empty_table()]
        files = [np.empty(0, dtype=np.int64)]
        numbers = [np.empty(0, dtype=np.int64)]
        unreadable = {}
        for index, file in enumerate(self._files):
            try:
                parts = list(self._rows_of(file))
            except UnreadableFileError as error:
                unreadable[file.path] = str(error)
                continue
            tables.append(pa.Table.from_batches([rows for rows, _ in parts], self._schema()))
            numbers += [row_numbers_of_part for _, row_numbers_of_part in parts]
            files.append(np.full(len(tables[-1]), index))
        rows = pa.concat_tables(tables)
        order = np.argsort(offsets_of(rows), kind="stable")
        return LakeRows(
            rows.take(pa.array(order)),
            np.concatenate(files)[order],
            np.concatenate(numbers)[order],
            self._range.files,
            unreadable,
        )

    def _schema(self) -> pa.Schema:
        log = arrow_schema(with_headers=True, for_table=True)
        return pa.schema([log.field(name) for name in (OFFSET, *self._topic.columns)])

    def _sums(self, rows: pa.Table) -> tuple[Checksums, Blocks]:
        sums, blocks = Checksums(), Blocks()
        for batch in rows.to_batches():
            if len(batch):
                sums.add(_columns(batch))
                if self._topic.is_digested:
                    blocks.add(batch)
        return sums, blocks


def _columns(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def _side_by_side(
    lake: Iterator[pa.RecordBatch], log: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Cut the rows of both into pairs of equal length."""
    lake_rows, log_rows = next(lake, None), next(log, None)
    while lake_rows is not None and log_rows is not None:
        count = min(len(lake_rows), len(log_rows))
        if count:
            yield lake_rows.slice(0, count), log_rows.slice(0, count)
        lake_rows = lake_rows.slice(count) if count < len(lake_rows) else next(lake, None)
        log_rows = log_rows.slice(count) if count < len(log_rows) else next(log, None)
    if lake_rows is not None or log_rows is not None:
        raise _NotEqualError


def _ascending(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Cut rows where their offsets do not ascend, or where rows between them may come later."""
    steps = np.diff(values_of(rows.column(OFFSET)))
    cuts = (np.flatnonzero((steps <= 0) | (steps > _MAX_STEP)) + 1).tolist()
    if len(cuts) > _MAX_PIECES:
        raise _NotInOrderError
    return [rows.slice(start, end - start) for start, end in pairwise([0, *cuts, len(rows)])]
