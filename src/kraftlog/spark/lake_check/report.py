"""The result of a comparison for each partition: as text for people, as data for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kraftlog.client.text_table import table
from kraftlog.spark.lake_check.blocks import Blocks
from kraftlog.spark.lake_check.checksums import Checksums
from kraftlog.spark.lake_check.findings import NOT_IN_LOG, Finding, counted, merged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.spark.lake_check.compare import RangeResult
    from kraftlog.spark.lake_check.sample import Sampled
    from kraftlog.spark.lake_check.tables import LakeTable


class PartitionReport(NamedTuple):
    topic: str
    partition: int
    #: The archived offsets; the end is exclusive.
    start: int
    end: int
    #: The start and the end offset of the log.
    log_start: int
    log_end: int
    #: The numbers of records in the lake, without `expired` and `compacted`, and in the log.
    lake: int
    log: int
    #: The numbers of records that are only in the lake, because of retention and of compaction.
    expired: int
    compacted: int
    dead_letters: int
    #: CRC-32C and SHA-256 of these records; a dash if there are none, or not all were compared.
    lake_checksum: str
    log_checksum: str
    lake_digest: str
    log_digest: str
    findings: tuple[Finding, ...]
    #: How many of its ranges were compared; fewer than all if a sample is.
    compared_ranges: int
    ranges: int

    def data(self) -> dict[str, Any]:
        return self._asdict() | {"findings": [each._asdict() for each in self.findings]}

    def outcome(self) -> str:
        parts = [f"{each.records:,} {each.kind}" for each in self.findings]
        if not self.compared_ranges:
            parts.append("not in the sample")
        elif not parts:
            parts.append("equal" if self.compared_ranges == self.ranges else "equal in the sample")
        if self.expired:
            parts.append(f"{self.expired:,} only in the lake (retention)")
        if self.compacted:
            parts.append(f"{self.compacted:,} only in the lake (compaction)")
        if self.dead_letters:
            parts.append(f"{self.dead_letters:,} dead letters")
        return ", ".join(parts)


def partition_report(
    name: tuple[str, int],
    results: Sequence[RangeResult],
    archived: tuple[int, int],
    log_bounds: tuple[int, int],
    end_note: str,
    ranges: int,
) -> PartitionReport:
    """Sum up the results of a partition's ranges, which are in order of offsets.

    `ranges` is the number of all its ranges; with a sample, fewer have a result.
    """
    is_whole = len(results) == ranges
    lake, log = Checksums(), Checksums()
    lake_blocks, log_blocks = Blocks(), Blocks()
    for result in results:
        lake.append(result.lake_sums)
        log.append(result.log_sums)
        lake_blocks.append(result.lake_blocks)
        log_blocks.append(result.log_blocks)
    findings = merged(finding for result in results for finding in result.findings)
    log_start, log_end = log_bounds
    if archived[1] > log_end and not any(finding.note == end_note for finding in findings):
        lost = (max(log_end, archived[0]), archived[1] - 1)
        findings.append(Finding(NOT_IN_LOG, *name, 0, (lost,), note=end_note))
    return PartitionReport(
        *name,
        start=archived[0],
        end=archived[1],
        log_start=log_start,
        log_end=log_end,
        lake=sum(result.lake for result in results),
        log=sum(result.log for result in results),
        expired=sum(result.expired for result in results),
        compacted=sum(result.compacted for result in results),
        dead_letters=sum(result.dead_letters for result in results),
        lake_checksum=lake.text() if is_whole else "-",
        log_checksum=log.text() if is_whole else "-",
        lake_digest=lake_blocks.text() if is_whole else "-",
        log_digest=log_blocks.text() if is_whole else "-",
        findings=tuple(findings),
        compared_ranges=len(results),
        ranges=ranges,
    )


class Report(NamedTuple):
    directory: str
    tables: tuple[LakeTable, ...]
    partitions: tuple[PartitionReport, ...]
    #: What is wrong with tables and files, as opposed to partitions.
    table_findings: tuple[Finding, ...] = ()
    #: If only a sample was compared.
    sampled: Sampled | None = None

    @property
    def findings(self) -> list[Finding]:
        of_partitions = [each for part in self.partitions for each in part.findings]
        return [*self.table_findings, *of_partitions]

    @property
    def records(self) -> int:
        """The number of records that were compared."""
        return sum(part.lake for part in self.partitions)

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
            "sample": None if self.sampled is None else self.sampled.data(),
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
        lines += [line for each in self.findings for line in each.lines(self.directory)]
        lines += [self.sampled.text()] if self.sampled is not None else []
        lines.append(self._summary())
        return "\n".join(lines)

    def _summary(self) -> str:
        not_archived = sum(max(0, part.log_end - part.end) for part in self.partitions)
        later = (
            f"; the log has {not_archived:,} later offsets, not archived yet"
            if not_archived
            else ""
        )
        records = f"{counted(self.records, 'record')} compared"
        if self.findings:
            wrong = counted(sum(finding.records for finding in self.findings), "record")
            found = counted(len(self.findings), "finding")
            return f"not equal: {found}, {wrong}; {records}{later}"
        bound = f"; {self.sampled.bound_text()}" if self.sampled is not None else ""
        return f"equal: {records}{bound}{later}"


def not_compared_line(lake: LakeTable) -> str:
    """Name the columns that are not as in the log, such as decoded values, and the others."""
    missing = ", ".join(lake.not_compared)
    compared = ", ".join(("offset", *lake.compared))
    return f"{lake.topic}: {missing} not as in the log, so not compared; compared: {compared}"
