"""Ranges of offsets, and how they are split over Spark's tasks."""

from __future__ import annotations

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
    than `min_partitions`, ranges are split further, in proportion to their size.
    """
    tasks = [each for each in ranges if each.size > 0]
    max_size = max_records
    if max_size is None and min_partitions is None:
        max_size = RECORDS_PER_TASK
    if max_size is not None:
        tasks = [part for each in tasks for part in _cut(each, -(-each.size // max_size))]
    if min_partitions is not None and len(tasks) < min_partitions:
        tasks = _split_proportionally(tasks, min_partitions)
    return tasks


def _split_proportionally(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Split the ranges into about `count` parts of similar size; small ranges stay whole."""
    total = sum(each.size for each in ranges)
    small = {each for each in ranges if _share(each.size, total, count) == 1}
    large_total = total - sum(each.size for each in small)
    large_count = max(count - len(small), 1)
    return [
        part
        for each in ranges
        for part in _cut(each, 1 if each in small else _share(each.size, large_total, large_count))
    ]


def _share(size: int, total: int, count: int) -> int:
    """The share of `count` tasks for a range of this size, rounded, and at least 1."""
    return max(int(size / total * count + 0.5), 1)


def _cut(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into parts of about equal size."""
    parts = min(parts, offset_range.size)
    bounds = [
        offset_range.start + offset_range.size * number // parts for number in range(parts + 1)
    ]
    return [
        OffsetRange(offset_range.topic, offset_range.partition, start, end)
        for start, end in pairwise(bounds)
    ]
