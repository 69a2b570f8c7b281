"""Compares the rows of a range one by one, if checksums differ or cannot be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.spark.lake_check.findings import (
    DIFFERENT,
    DUPLICATE,
    MISSING,
    NOT_IN_LOG,
    Finding,
    consecutive_ranges,
)
from kraftlog.spark.lake_check.lake_files import OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.records.columns import Numbers
    from kraftlog.spark.lake_check.plan import Range

_NONE = np.empty(0, dtype=np.int64)


class LakeRows(NamedTuple):
    """The rows of the lake in order of offsets, with the place of each.

    The place is the index in `files` of its file, and the number of the row there.
    """

    rows: pa.Table
    file_numbers: Numbers
    row_numbers: Numbers
    files: Sequence[str]
    #: The files of the range that cannot be read, with the reason.
    unreadable: dict[str, str]

    def from_offset(self, offset: int) -> LakeRows:
        """The rows from an offset on."""
        first = int(np.searchsorted(offsets_of(self.rows), offset))
        return self._replace(
            rows=self.rows.slice(first),
            file_numbers=self.file_numbers[first:],
            row_numbers=self.row_numbers[first:],
        )

    def placed(self, finding: Finding, rows: Numbers) -> Finding:
        """A finding about these rows with their files, and their numbers if it is one file."""
        files = np.unique(self.file_numbers[rows]).tolist()
        numbers = np.sort(self.row_numbers[rows]) if len(files) == 1 else _NONE
        return finding._replace(
            files=tuple(self.files[number] for number in files), rows=consecutive_ranges(numbers)
        )


class RowComparison:
    """Compares lake rows with log rows; each `find_...` method adds to `findings`.

    `everything` are the lake's rows, `lake` those from the log's start on.
    """

    def __init__(
        self, offset_range: Range, everything: LakeRows, lake: LakeRows, log: pa.Table
    ) -> None:
        self._range = offset_range
        self._everything = everything
        self._all_offsets = offsets_of(everything.rows)
        self._lake = lake
        self._log = log
        self._lake_offsets = offsets_of(lake.rows)
        self._log_offsets = offsets_of(log)
        #: For each row of the lake: its index in the log, and whether the log has its offset.
        self._log_indexes, self.is_in_log = _indexes_in(self._lake_offsets, self._log_offsets)
        self.findings: list[Finding] = []

    @property
    def expired(self) -> int:
        """How many rows are older than the log, so that they cannot be compared any more."""
        return int(np.count_nonzero(self._all_offsets >= 0)) - len(self._lake_offsets)

    def find_duplicates(self) -> None:
        """Find offsets that the lake has more than once, even if the log lacks them by now."""
        offsets = self._all_offsets
        repeated = np.flatnonzero(offsets[1:] == offsets[:-1]) + 1
        if len(repeated):
            rows = np.union1d(repeated, repeated - 1)
            finding = self._finding(DUPLICATE, offsets[repeated])
            self.findings.append(self._everything.placed(finding, rows))

    def find_missing(self) -> None:
        missing = self._log_offsets[~_indexes_in(self._log_offsets, self._lake_offsets)[1]]
        if len(missing):
            finding = self._finding(MISSING, missing)
            if self._lake.unreadable:
                note = "; ".join(sorted(set(self._lake.unreadable.values())))
                finding = finding._replace(files=tuple(self._lake.unreadable), note=note)
            self.findings.append(finding)

    def find_negative(self) -> None:
        negative = np.flatnonzero(self._all_offsets < 0)
        if len(negative):
            finding = self._finding(NOT_IN_LOG, self._all_offsets[negative])
            self.findings.append(self._everything.placed(finding, negative))

    def find_extra(
        self, log_end: int, end_note: str, dead_letters: Numbers, *, is_compacted: bool
    ) -> int:
        """Find rows that the log lacks; return how many of them compaction may have deleted."""
        offsets = self._lake_offsets
        is_dead = np.isin(offsets, dead_letters)
        dead = np.flatnonzero(is_dead)
        self._add(DUPLICATE, offsets[dead], dead, "also among the dead letters")
        only_in_lake = np.flatnonzero(~self.is_in_log & ~is_dead)
        beyond = only_in_lake[offsets[only_in_lake] >= log_end]
        self._add(NOT_IN_LOG, offsets[beyond], beyond, end_note)
        before_end = only_in_lake[offsets[only_in_lake] < log_end]
        if is_compacted:
            return len(before_end)
        self._add(NOT_IN_LOG, offsets[before_end], before_end)
        return 0

    def find_differences(self) -> None:
        """Find rows with an offset of the log but other content, by the columns that differ."""
        lake, log = self.common()
        common = np.flatnonzero(self.is_in_log)
        columns: dict[int, list[str]] = {}
        for name in lake.column_names:
            for row in _unequal(lake.column(name), log.column(name)):
                columns.setdefault(row, []).append(name)
        by_columns: dict[str, list[int]] = {}
        for row, names in sorted(columns.items()):
            by_columns.setdefault(", ".join(names), []).append(row)
        for column_names, common_rows in by_columns.items():
            rows = common[np.array(common_rows)]
            self._add(DIFFERENT, self._lake_offsets[rows], rows, f"in {column_names}")

    def common(self) -> tuple[pa.Table, pa.Table]:
        """The rows of the lake whose offsets the log has, and the log's rows at these offsets."""
        return self._lake.rows.filter(pa.array(self.is_in_log)), self._log.take(
            pa.array(self._log_indexes[self.is_in_log])
        )

    def _add(self, kind: str, offsets: Numbers, rows: Numbers, note: str = "") -> None:
        if len(offsets):
            finding = self._finding(kind, offsets)._replace(note=note)
            self.findings.append(self._lake.placed(finding, rows))

    def _finding(self, kind: str, offsets: Numbers) -> Finding:
        topic, partition = self._range.topic, self._range.partition
        return Finding(kind, topic, partition, len(offsets), consecutive_ranges(offsets))


def offsets_of(rows: pa.Table) -> Numbers:
    offsets: Numbers = rows.column(OFFSET).to_numpy()
    return offsets


def _indexes_in(numbers: Numbers, ascending: Numbers) -> tuple[Numbers, Numbers]:
    """The index of each number in an ascending array, and whether the array has the number."""
    indexes = np.searchsorted(ascending, numbers)
    if not len(ascending):
        return indexes, np.zeros(len(numbers), dtype=bool)
    return indexes, ascending[np.minimum(indexes, len(ascending) - 1)] == numbers


def _unequal(lake: pa.ChunkedArray, log: pa.ChunkedArray) -> list[int]:
    """The rows in which two columns differ.

    Two nulls are equal, and a null list equals an empty list.
    """
    if lake.equals(log):
        return []
    if pa.types.is_nested(lake.type):
        pairs = zip(lake.to_pylist(), log.to_pylist(), strict=True)
        return [
            row for row, (in_lake, in_log) in enumerate(pairs) if (in_lake or []) != (in_log or [])
        ]
    is_equal = pc.fill_null(pc.equal(lake, log), pc.and_(lake.is_null(), log.is_null()))
    rows: list[int] = np.flatnonzero(~is_equal.to_numpy()).tolist()
    return rows
