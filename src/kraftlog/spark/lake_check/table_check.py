"""The comparison of one table with the log, so that every row of every file is accounted for.

The ranges to compare come from the table's log, which may be wrong. So it is counted how many rows
of each file belong to its ranges. The offsets of a file that has other rows are read, and the
ranges that change by that are compared again: then a row is where its offset is, whatever the log
says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.spark.lake_check.blocks import BLOCK
from kraftlog.spark.lake_check.findings import (
    MISCOUNTED,
    MISDESCRIBED,
    NOT_IN_LOG,
    UNREADABLE,
    WITHOUT_POSITION,
    Finding,
    consecutive_ranges,
    counted,
)
from kraftlog.spark.lake_check.lake_files import UnreadableFileError
from kraftlog.spark.lake_check.plan import aligned, ranges
from kraftlog.spark.lake_check.report import partition_report
from kraftlog.spark.lake_check.tables import exact_spans, misdescriptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kraftlog.spark.lake_check.compare import ComparedTopic, RangeResult
    from kraftlog.spark.lake_check.dead_letters import DeadLetters
    from kraftlog.spark.lake_check.lake_files import FileCount
    from kraftlog.spark.lake_check.plan import Range
    from kraftlog.spark.lake_check.report import PartitionReport
    from kraftlog.spark.lake_check.tables import FileAction, FileSpan, LakeTable

    #: Compares ranges with the log, in this process or in tasks of Spark.
    CompareRanges = Callable[[Sequence[Range]], list[RangeResult]]


class TableCheck:
    def __init__(self, table: LakeTable, topic: ComparedTopic) -> None:
        self.table = table
        self.topic = topic
        self.ranges = self._planned(table.spans, frozenset())
        self.results: dict[Range, RangeResult] = {}
        self._findings = list(table.findings)
        self._counts: dict[str, FileCount] = {}
        #: Why files cannot be read.
        self._unreadable = {
            path: each.note
            for each in table.findings
            if each.kind == UNREADABLE
            for path in each.files
        }

    @property
    def is_whole(self) -> bool:
        """Whether all ranges were compared, not a sample of them."""
        return all(each in self.results for each in self.ranges)

    def take(self, results: Iterable[tuple[Range, RangeResult]]) -> None:
        self.results.update(results)

    def complete(self, compare_ranges: CompareRanges) -> None:
        """Look for rows that belong to no range so far, and compare them, too."""
        self._count()
        exact = {action.path: self._exact_spans(action) for action in self._miscounted()}
        if not self.is_whole:  # most of these files are just not read to the end
            expected = {*self.table.spans}
            exact = {path: spans for path, spans in exact.items() if not expected >= {*spans}}
        if not exact:
            return
        spans = [each for each in self.table.spans if each.path not in exact]
        spans += [span for found in exact.values() for span in found]
        old = self.ranges
        self.ranges = self._planned(spans, frozenset(exact))
        new = {*self.ranges} - {*old}
        # Of a sample, only what changed is compared as well.
        due = [each for each in self.ranges if each in new]
        self.take(zip(due, compare_ranges(due), strict=True))
        self._count()

    def findings(self) -> list[Finding]:
        """What is wrong with the table and its files; `partitions()` have the rest."""
        found = list(self._findings)
        of_records = [each for result in self._compared() for each in result.findings]
        named = {path for each in of_records for path in each.files}
        found += [
            Finding(UNREADABLE, self.table.topic, -1, 0, files=(path,), note=reason)
            for path, reason in self._unreadable.items()
            if path not in named and not any(path in each.files for each in self._findings)
        ]
        for action in self.table.files:
            found += self._file_findings(action)
        for partition, letters in self.topic.dead_letters.items():
            found += self._unarchived_letters(partition, letters)
        if not found and not of_records:
            found += self._miscounts()
        return found

    def partitions(self, log: Mapping[int, tuple[int, int]]) -> list[PartitionReport]:
        reports = []
        for partition in sorted({each.partition for each in self.ranges}):
            own = [each for each in self.ranges if each.partition == partition]
            results = [self.results[each] for each in own if each in self.results]
            reports.append(
                partition_report(
                    (self.table.topic, partition),
                    results,
                    (own[0].start, own[-1].end),
                    log.get(partition, (0, 0)),
                    self.topic.end_note(partition),
                    len(own),
                )
            )
        return reports

    def _planned(self, spans: Iterable[FileSpan], exact: frozenset[str]) -> list[Range]:
        planned = ranges(self.table.topic, spans, self._archived(), exact, self.topic.log)
        return aligned(planned, BLOCK) if self.topic.is_digested else planned

    def _archived(self) -> dict[int, tuple[int, int]]:
        """The archived offsets: also from a dead letter on, if older commits were cleaned up."""
        archived = dict(self.table.archived)
        for partition, letters in self.topic.dead_letters.items():
            offsets = letters.offsets[letters.offsets >= self._kept(partition)]
            if partition in self.topic.log and len(offsets):
                start, end = archived.get(partition, (int(offsets[0]), int(offsets[-1]) + 1))
                archived[partition] = (min(start, int(offsets[0])), end)
        return archived

    def _kept(self, partition: int) -> int:
        """The first offset that the table's retention has not removed."""
        kept: int = self.table.state.get("kept", {}).get(str(partition), 0)
        return kept

    def _compared(self) -> Iterator[RangeResult]:
        return (self.results[each] for each in self.ranges if each in self.results)

    def _count(self) -> None:
        """Add up what the ranges have read of each file."""
        self._counts = {}
        for result in self._compared():
            self._unreadable |= result.unreadable
            for count in result.files:
                before = self._counts.get(count.path)
                self._counts[count.path] = count if before is None else before.plus(count)

    def _miscounted(self) -> list[FileAction]:
        """Files with rows that no compared range has; of a sample, those that are read in part."""
        return [
            action
            for action in self.table.files
            if (count := self._counts.get(action.path)) is not None
            and count.counted < count.rows
            and action.path not in self._unreadable
        ]

    def _exact_spans(self, action: FileAction) -> list[FileSpan]:
        spans, finding = exact_spans(self.table, action)
        if finding is not None and finding not in self._findings:
            self._findings.append(finding)
        return spans

    def _lost(self, path: str) -> int:
        """The rows of a file without a partition or an offset."""
        findings = (each for each in self._findings if each.kind == WITHOUT_POSITION)
        return sum(each.records for each in findings if path in each.files)

    def _file_findings(self, action: FileAction) -> Iterator[Finding]:
        if action.path in self._unreadable:
            return
        count = self._counts.get(action.path)
        if count is None:
            if not self.is_whole:
                return
            try:
                count = self._count_without_ranges(action)
            except UnreadableFileError as error:
                yield self._of_file(UNREADABLE, action, str(error))
                return
        left = count.rows - count.counted - self._lost(action.path)
        if left and self.is_whole:
            yield self._of_file(MISCOUNTED, action, f"{counted(left, 'row')} in no range")
        if count.counted != count.rows:
            count = count._replace(bounds={})
        if texts := misdescriptions(self.table, action, count):
            yield self._of_file(MISDESCRIBED, action, "; ".join(texts))

    def _unarchived_letters(self, partition: int, letters: DeadLetters) -> Iterator[Finding]:
        """Dead letters at offsets that were not archived, so that no range has them."""
        own = [each for each in self.ranges if each.partition == partition]
        kept = self._kept(partition)
        start, end = (own[0].start, own[-1].end) if own else (kept, kept)
        is_other = (letters.offsets < start) | (letters.offsets >= end)
        is_removed = (letters.offsets >= 0) & (letters.offsets < kept)
        offsets = letters.offsets[is_other & ~is_removed]
        if len(offsets):
            spans = consecutive_ranges(offsets)
            note = "among the dead letters; these offsets were not archived"
            topic = self.table.topic
            yield Finding(NOT_IN_LOG, topic, partition, len(offsets), spans, (letters.path,), note)

    def _of_file(self, kind: str, action: FileAction, note: str) -> Finding:
        return Finding(kind, self.table.topic, -1, 0, files=(action.path,), note=note)

    def _count_without_ranges(self, action: FileAction) -> FileCount:
        """Count the rows of a file that has none with an offset."""
        file = self.table.file(action.path)
        for _ in file.positions():
            pass
        return file.count

    def _miscounts(self) -> Iterator[Finding]:
        """Compare the numbers of rows with those that the archive has recorded."""
        state, letters = self.table.state, self.topic.dead_letters
        rows = sum(count.rows for count in self._counts.values())
        dead = sum(len(each.offsets) for each in letters.values())
        for noun, found, said in (("row", rows, "rows"), ("dead letter", dead, "bad")):
            recorded = state.get(said)
            if not (self.is_whole and isinstance(recorded, int)):
                continue
            removed = state.get("removed", 0) if said == "rows" else 0
            if recorded - removed != found:
                by_retention = f" and removed {removed:,} by retention" if removed else ""
                note = f"the archive wrote {counted(recorded, noun)}{by_retention}, and there are "
                count = abs(recorded - removed - found)
                yield Finding(MISCOUNTED, self.table.topic, -1, count, note=f"{note}{found:,}")


def rolled_back(topic: str, table: LakeTable, committed: Mapping[int, int]) -> list[Finding]:
    """Compare the table's end with the offsets that the archive's checkpoint has as archived.

    The checkpoint is written after the table, so it must have been read before the table.
    """
    ends = {
        int(key): end
        for key, end in table.state.get("offsets", {}).items()
        if isinstance(end, int)  # otherwise it is a finding
    }
    return [
        Finding(
            table.damaged_log,
            topic,
            partition,
            0,
            note=f"the archive's checkpoint was at offset {offset}, "
            f"the table's newest commit is at {ends[partition]}: a commit was removed",
        )
        for partition, offset in sorted(committed.items())
        if offset > ends.get(partition, offset)
    ]
