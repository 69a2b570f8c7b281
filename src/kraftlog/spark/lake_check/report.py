"""The result of a comparison for each partition: as text for people, as data for programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kraftlog.client.text_table import table
from kraftlog.spark.lake_check.checksums import Checksums
from kraftlog.spark.lake_check.findings import MISSING, NOT_IN_LOG, UNREADABLE, Finding, merged
from kraftlog.spark.lake_check.rows_compared import log_end_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kraftlog.spark.lake_check.compare import RangeResult
    from kraftlog.spark.lake_check.tables import LakeTable


class PartitionReport(NamedTuple):
    topic: str
    partition: int
    #: The archived offsets; the end is exclusive.
    start: int
    end: int
    #: The end offset of the log.
    log_end: int
    #: The numbers of records in the lake, without `expired` and `compacted`, and in the log.
    lake: int
    log: int
    #: The numbers of records that are only in the lake, because of retention and of compaction.
    expired: int
    compacted: int
    dead_letters: int
    lake_checksum: str
    log_checksum: str
    findings: tuple[Finding, ...]

    def data(self) -> dict[str, Any]:
        return self._asdict() | {"findings": [each._asdict() for each in self.findings]}

    def outcome(self) -> str:
        parts = [f"{each.records:,} {each.kind}" for each in self.findings] or ["equal"]
        if self.expired:
            parts.append(f"{self.expired:,} only in the lake (retention)")
        if self.compacted:
            parts.append(f"{self.compacted:,} only in the lake (compaction)")
        if self.dead_letters:
            parts.append(f"{self.dead_letters:,} dead letters")
        return ", ".join(parts)


def partition_report(
    results: Sequence[RangeResult], archived: tuple[int, int], log_end: int
) -> PartitionReport:
    """Sum up the results of a partition's ranges, which are in order of offsets."""
    lake, log = Checksums(), Checksums()
    for result in results:
        lake.append(result.lake_sums)
        log.append(result.log_sums)
    topic, partition = results[0].topic, results[0].partition
    findings = merged(finding for result in results for finding in result.findings)
    note = log_end_note(log_end)
    if archived[1] > log_end and not any(finding.note == note for finding in findings):
        lost = (log_end, archived[1] - 1)
        findings.append(Finding(NOT_IN_LOG, topic, partition, 0, (lost,), note=note))
    return PartitionReport(
        topic=topic,
        partition=partition,
        start=archived[0],
        end=archived[1],
        log_end=log_end,
        lake=sum(result.lake for result in results),
        log=sum(result.log for result in results),
        expired=sum(result.expired for result in results),
        compacted=sum(result.compacted for result in results),
        dead_letters=sum(result.dead_letters for result in results),
        lake_checksum=lake.text(),
        log_checksum=log.text(),
        findings=tuple(findings),
    )


class Report(NamedTuple):
    directory: str
    tables: tuple[LakeTable, ...]
    partitions: tuple[PartitionReport, ...]

    @property
    def findings(self) -> list[Finding]:
        of_files = [
            Finding(UNREADABLE, table.topic, -1, 0, (), (path,), reason)
            for table in self.tables
            for path, reason in table.unreadable
        ]
        return of_files + [each for partition in self.partitions for each in partition.findings]

    def data(self) -> dict[str, Any]:
        return {
            "equal": not self.findings,
            "tables": [
                {
                    "topic": table.topic,
                    "version": table.version,
                    "compared": table.compared,
                    "not_compared": table.not_compared,
                }
                for table in self.tables
            ],
            "partitions": [part.data() for part in self.partitions],
            "findings": [finding._asdict() for finding in self.findings],
        }

    def text(self) -> str:
        rows = [
            (
                *(part.topic, part.partition, f"{part.start}-{part.end - 1}"),
                *(part.lake, part.log, part.lake_checksum, part.log_checksum),
                part.outcome(),
            )
            for part in self.partitions
        ]
        heads = ("TOPIC", "PARTITION", "OFFSETS", "LAKE", "LOG", "CRC LAKE", "CRC LOG", "RESULT")
        lines = [table(heads, rows)] if rows else []
        lines += [not_compared_line(each) for each in self.tables if each.not_compared]
        lines += self._finding_lines()
        lines.append(self._summary())
        return "\n".join(lines)

    def _finding_lines(self) -> Iterator[str]:
        for finding in self.findings:
            where = finding.topic
            if finding.partition >= 0:
                where = f"{finding.topic}-{finding.partition}"
            words = finding.kind
            if finding.records:
                words = f"{finding.records:,} record{_plural_s(finding.records)} {finding.kind}"
            if finding.offsets:
                is_one = len(finding.offsets) == 1 and len(set(finding.offsets[0])) == 1
                words += f" at offset{'' if is_one else 's'} {finding.offsets_text()}"
            # For files that are lost or broken, the note follows each file.
            is_of_files = finding.kind in {MISSING, UNREADABLE}
            note, file_note = ("", finding.note) if is_of_files else (finding.note, "")
            yield f"{where}: {words} ({note})" if note else f"{where}: {words}"
            for path in finding.files:
                yield f"    {os.path.relpath(path, self.directory)} {file_note}".rstrip()

    def _summary(self) -> str:
        records = sum(part.lake for part in self.partitions)
        not_archived = sum(max(0, part.log_end - part.end) for part in self.partitions)
        later = (
            f"; the log has {not_archived:,} later offsets, not archived yet"
            if not_archived
            else ""
        )
        if not self.findings:
            return f"equal: {records:,} records compared{later}"
        count = len(self.findings)
        wrong_records = sum(finding.records for finding in self.findings)
        return (
            f"not equal: {count} finding{_plural_s(count)}, "
            f"{wrong_records:,} record{_plural_s(wrong_records)}; "
            f"{records:,} records compared{later}"
        )


def _plural_s(count: int) -> str:
    return "" if count == 1 else "s"


def not_compared_line(lake: LakeTable) -> str:
    """Name the columns that are not as in the log, such as decoded values, and the others."""
    missing = ", ".join(lake.not_compared)
    compared = ", ".join(("offset", *lake.compared))
    return f"{lake.topic}: {missing} not as in the log, so not compared; compared: {compared}"
