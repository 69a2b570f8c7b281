"""Divides the offsets that a table should have into ranges that are compared one by one."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from pyarrow.parquet import ParquetFile

from kraftlog.spark.lake_check.lake_files import UnreadableFileError, group_span, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kraftlog.spark.lake_check.tables import FileSpan

#: A range has at most about this many records (or offsets, without files) and bytes of files, so
#: that its rows in the lake and in the log fit in memory together.
RANGE_RECORDS = 1_000_000
RANGE_BYTES = 128 << 20
#: Ranges with fewer records share a task; a file with more is cut, if its row groups allow it.
TASK_RECORDS = 250_000


class Range(NamedTuple):
    """The offsets from `start` to before `end` of a partition, and the files that have them."""

    topic: str
    partition: int
    start: int
    end: int
    files: tuple[str, ...]
    #: How many records the table has in this range; estimated if other ranges have the same files.
    records: int
    #: Whether statistics in the files were found to be wrong, so that all their rows are read.
    is_exact: bool = False


def ranges(
    topic: str,
    spans: Iterable[FileSpan],
    archived: Mapping[int, tuple[int, int]],
    exact: frozenset[str] = frozenset(),
    log: Mapping[int, tuple[int, int]] | None = None,
) -> list[Range]:
    """Cover the archived offsets of each partition with ranges, without a gap.

    Every offset is in exactly one range. Files with overlapping offsets share a range, which begins
    where the previous one ends. If such files are too large, their offsets are divided into several
    ranges, each of which names all of the files. A long hole before files, and the offsets after
    the last file, become ranges without files. `exact` are files whose statistics are wrong.
    `log` has the start and end offset of each partition, beyond which a hole need not be divided.
    """
    by_partition: dict[int, list[FileSpan]] = {partition: [] for partition in archived}
    for span in spans:
        by_partition.setdefault(span.partition, []).append(span)
    result: list[Range] = []
    for partition, partition_spans in sorted(by_partition.items()):
        log_end = None if log is None else log.get(partition, (0, 0))[1]
        groups = list(_overlapping(partition_spans))
        start, end = archived.get(partition, (None, None))
        if groups:
            first, last = groups[0][0].first, max(span.last for span in groups[-1])
            start = first if start is None else min(start, first)
            end = last + 1 if end is None else max(end, last + 1)
        assert start is not None
        assert end is not None
        for group in groups:
            group_end = max(span.last for span in group) + 1
            first = group[0].first
            if first - start > RANGE_RECORDS:
                result += _without_files(topic, partition, start, first, log_end)
                start = first
            result += _ranges_of_group(topic, partition, start, group_end, group)
            start = group_end
        result += _without_files(topic, partition, start, end, log_end)
    if not exact:
        return result
    return [each._replace(is_exact=not exact.isdisjoint(each.files)) for each in result]


def _overlapping(spans: Sequence[FileSpan]) -> Iterator[list[FileSpan]]:
    """Groups of files whose offsets overlap, in order."""
    group: list[FileSpan] = []
    end = -1
    for span in sorted(spans, key=lambda span: (span.first, span.last, span.path)):
        if group and span.first > end:
            yield group
            group = []
        group.append(span)
        end = max(end, span.last)
    if group:
        yield group


def _without_files(
    topic: str, partition: int, start: int, end: int, log_end: int | None
) -> Iterator[Range]:
    in_log = end if log_end is None else max(start, min(end, log_end))
    for first in range(max(start, min(in_log, 0)), in_log, RANGE_RECORDS):
        yield Range(topic, partition, first, min(first + RANGE_RECORDS, in_log), (), 0)
    if in_log < end:
        yield Range(topic, partition, in_log, end, (), 0)


def _ranges_of_group(
    topic: str, partition: int, start: int, end: int, group: Sequence[FileSpan]
) -> Iterator[Range]:
    """The ranges of a group of overlapping files, and of the offsets between `start` and them."""
    first = group[0].first
    files = tuple(dict.fromkeys(span.path for span in group))  # in order of their first offsets
    records = sum(span.records for span in group)
    size = sum(span.size_bytes for span in group)
    edges = [start, *_inner_edges(files, (first, end), records, size), end]
    for low, high in pairwise(edges):
        share = records * (high - max(low, first)) // max(end - first, 1)
        yield Range(topic, partition, low, high, files, share)


def _inner_edges(files: Sequence[str], span: tuple[int, int], records: int, size: int) -> list[int]:
    """Where to cut a range that is too large.

    The range of a single file with statistics is cut between row groups, as these are read as a
    whole; all others are cut evenly.
    """
    first, end = span
    max_records = TASK_RECORDS if len(files) == 1 else RANGE_RECORDS
    parts = max(-(-records // max_records), -(-size // RANGE_BYTES))
    if parts < 2:
        return []
    starts = _row_group_starts(files[0], first, end) if len(files) == 1 else []
    if not starts:
        parts = max(-(-records // RANGE_RECORDS), -(-size // RANGE_BYTES))
    even = [first + (end - first) * number // parts for number in range(1, parts)]
    if not starts:
        return even
    return sorted({min(starts, key=lambda start: abs(start - edge)) for edge in even})


def _row_group_starts(path: str, first: int, end: int) -> list[int]:
    """The first offsets of a file's row groups after the first one, if it has statistics."""
    try:
        with readable(), ParquetFile(path) as file:
            spans = [group_span(file, number) for number in range(file.num_row_groups)]
    except UnreadableFileError:
        return []
    return [span[0] for span in spans if span is not None and first < span[0] < end]


def aligned(all_ranges: Sequence[Range], block: int) -> list[Range]:
    """Move the edges between the ranges of a partition to multiples of `block`.

    So each block of offsets is in a single range, which names all files that have some of them.
    """
    result: list[Range] = []
    for _, group in groupby(all_ranges, key=lambda each: each[:2]):
        old = list(group)
        start, end = old[0].start, old[-1].end
        edges = {min(-(-each.end // block) * block, end) for each in old}
        for low, high in pairwise([start, *sorted(edges)]):
            parts = [each for each in old if each.start < high and each.end > low]
            result.append(
                parts[0]._replace(
                    start=low,
                    end=high,
                    files=tuple(dict.fromkeys(path for each in parts for path in each.files)),
                    records=sum(each.records for each in parts if each.start >= low),
                    is_exact=any(each.is_exact for each in parts),
                )
            )
    return result


def tasks(all_ranges: Sequence[Range]) -> list[list[Range]]:
    """The ranges, in order, as tasks of about equal work: small ranges share a task."""
    shared: list[list[Range]] = []
    remaining = 0
    for offset_range in all_ranges:
        hole = offset_range.end - offset_range.start
        # A longer hole is beyond the log's end.
        size = offset_range.records or (hole if hole <= RANGE_RECORDS else 0)
        if not shared or size > remaining:
            shared.append([])
            remaining = TASK_RECORDS
        shared[-1].append(offset_range)
        remaining -= size
    return shared
