"""Compares tables with the log: all of them, a sample of their offsets, or what is new."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kraftlog.spark.lake_check.report import Report
from kraftlog.spark.lake_check.sample import Sampled, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.spark.lake_check.compare import RangeResult
    from kraftlog.spark.lake_check.findings import Finding
    from kraftlog.spark.lake_check.plan import Range
    from kraftlog.spark.lake_check.sample import Sample
    from kraftlog.spark.lake_check.table_check import CompareRanges, TableCheck

#: A range, and for each of its files the size and the time of its last change.
Key = tuple["Range", tuple[object, ...]]


class Known:
    """What the rounds of a repeated check have found to be equal, which is not compared again."""

    def __init__(self) -> None:
        self.seen: set[Key] = set()
        self.results: dict[Key, RangeResult] = {}


def check(
    directory: str,
    tables: Sequence[TableCheck],
    compare_ranges: CompareRanges,
    damage: Iterable[Finding] = (),
    *,
    sample: Sample | None = None,
    known: Known | None = None,
) -> Report:
    """Compare the tables in a directory; `damage` are findings about tables that have no check."""
    known = known or Known()
    keys = {each: _key(each) for table in tables for each in table.ranges}
    new = [each for each, key in keys.items() if key not in known.seen]
    sampled = None
    if sample is None:
        due = new
    else:
        chosen = {*drawn(list(keys), sample), *(new if known.seen else ())}
        due = [each for each in keys if each in chosen]
        if len(due) < len(keys):
            sampled = Sampled(sample, len(due), len(keys))
    results = {each: known.results[key] for each, key in keys.items() if key in known.results}
    results.update(zip(due, compare_ranges(due), strict=True))
    for table in tables:
        table.take((each, results[each]) for each in table.ranges if each in results)
        table.complete(compare_ranges)
    findings = [*damage, *(each for table in tables for each in table.findings())]
    partitions = [part for table in tables for part in table.partitions(table.topic.log)]
    report = Report(
        directory,
        tuple(each.table for each in tables),
        tuple(partitions),
        tuple(findings),
        sampled,
    )
    known.seen.update(keys.values())
    known.results.update((keys[each], result) for each, result in results.items())
    return report


def _key(offset_range: Range) -> Key:
    stamps: list[object] = []
    for path in offset_range.files:
        try:
            status = os.stat(path)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return offset_range, tuple(stamps)
