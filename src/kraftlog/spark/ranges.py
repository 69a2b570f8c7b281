"""Ranges of offsets, and how they are split over Spark's tasks."""

from __future__ import annotations

import heapq
from itertools import pairwise

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.client.model import PartitionName

#: If neither option of `split` is given, a range of more offsets than this is read by several
#: tasks. Starting a task takes a few hundredths of a second, reading this many records about half
#: a second.
RECORDS_PER_TASK = 1_000_000


class OffsetRange(Value):
    """The offsets from `start` to before `end` of a partition; one or several tasks read them."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def name(self) -> PartitionName:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        return self.end - self.start

    def __reduce__(self) -> tuple[type[OffsetRange], tuple[str, int, int, int]]:
        return OffsetRange, (self.topic, self.partition, self.start, self.end)


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Split ranges into one for each task, in order; empty ranges are left out.

    As in Spark's connector, no task gets more than `max_records` offsets. If this makes fewer tasks
    than `min_partitions`, ranges are split further, in proportion to their size, so that there are
    at least as many tasks, or one for each offset.
    """
    tasks = [each for each in ranges if each.size > 0]
    max_size = max_records
    if max_size is None and min_partitions is None:
        max_size = RECORDS_PER_TASK
    if max_size is not None:
        tasks = [part for each in tasks for part in _cut(each, -(-each.size // max_size))]
    if min_partitions is not None and len(tasks) < min_partitions:
        counts = _part_counts([each.size for each in tasks], min_partitions)
        tasks = [part for each, n in zip(tasks, counts, strict=True) for part in _cut(each, n)]
    return tasks


def _part_counts(sizes: Sequence[int], count: int) -> list[int]:
    """How many parts of similar size to make of ranges of these sizes: about `count`, or more.

    The connector rounds each range's share and may make fewer; here the largest parts are then
    divided further.
    """
    total = sum(sizes)
    is_small = [_share(size, total, count) == 1 for size in sizes]  # they stay whole
    large_total = sum(size for size, small in zip(sizes, is_small, strict=True) if not small)
    large_count = max(count - sum(is_small), 1)
    counts = [
        1 if small else min(_share(size, large_total, large_count), size)
        for size, small in zip(sizes, is_small, strict=True)
    ]
    largest = [
        (-size / parts, index)
        for index, (size, parts) in enumerate(zip(sizes, counts, strict=True))
    ]
    heapq.heapify(largest)
    for _ in range(min(count, total) - sum(counts)):
        _, index = largest[0]
        counts[index] += 1
        heapq.heapreplace(largest, (-sizes[index] / counts[index], index))
    return counts


def _share(size: int, total: int, count: int) -> int:
    """The share of `count` tasks for a range of this size, rounded, and at least 1."""
    return max(int(size / total * count + 0.5), 1)


def _cut(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into parts of about equal size."""
    bounds = [
        offset_range.start + offset_range.size * number // parts for number in range(parts + 1)
    ]
    return [
        OffsetRange(offset_range.topic, offset_range.partition, start, end)
        for start, end in pairwise(bounds)
    ]
