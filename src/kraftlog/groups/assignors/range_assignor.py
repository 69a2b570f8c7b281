"""`range`: each topic's partitions in ranges, in the order of the members.

Members with equal positions get equal ranges of topics with equal numbers of partitions, so that
such topics can be joined. It does not look at what the members own: in Kafka 4.4, too, it moves
partitions whenever a member joins or leaves.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from kraftlog.groups.assignors.interface import (
        Assignments,
        MemberSubscription,
        SubscribedTopics,
    )
    from kraftlog.types import Uuid

#: Ranges that are made in one step; each takes about a microsecond.
RANGES_PER_STEP = 500


def assign_ranges(
    members: Mapping[str, MemberSubscription], topics: SubscribedTopics, /
) -> Generator[int, None, Assignments]:
    """Assign in steps."""
    ordered = yield from in_order_of_ranges(list(members.values()))
    subscriber_counts: dict[Uuid, int] = {}
    cost = 0
    for member in ordered:
        for topic_id in member.topic_ids:
            subscriber_counts[topic_id] = subscriber_counts.get(topic_id, 0) + 1
        cost += 1 + len(member.topic_ids) // 8
        if cost >= RANGES_PER_STEP:
            yield cost
            cost = 0
    ranges = {
        topic_id: Ranges(topics.partition_count(topic_id), subscriber_counts[topic_id])
        for topic_id in sorted(subscriber_counts)
    }
    yield cost + len(ranges)
    assignments: Assignments = {}
    # The order of topics makes no difference but to who compares two runs.
    in_order: dict[frozenset[Uuid], list[Uuid]] = {}
    cost = 0
    for member in ordered:
        assignment = assignments[member.member_id] = {}
        topic_ids = in_order.get(member.topic_ids)
        if topic_ids is None:
            topic_ids = in_order[member.topic_ids] = sorted(member.topic_ids)
        for topic_id in topic_ids:
            partitions = ranges[topic_id].next()
            if partitions:
                assignment[topic_id] = frozenset(partitions)
        cost += 1 + len(member.topic_ids) // 3
        if cost >= RANGES_PER_STEP:
            yield cost
            cost = 0
    return assignments


class Ranges:
    """The ranges of a topic: sizes differ by one at most, and the larger come first."""

    __slots__ = ("_larger", "_size", "_start")

    def __init__(self, partition_count: int, subscriber_count: int) -> None:
        self._size, self._larger = divmod(partition_count, subscriber_count)
        self._start = 0

    def next(self) -> range:
        start = self._start
        self._start += self._size
        if self._larger:
            self._larger -= 1
            self._start += 1
        return range(start, self._start)


def in_order_of_ranges(
    members: Sequence[MemberSubscription],
) -> Generator[int, None, list[MemberSubscription]]:
    """The members in the order in which they get ranges."""
    keys: list[str] = []
    for start in range(0, len(members), RANGES_PER_STEP):
        keys += map(sort_key, members[start : start + RANGES_PER_STEP])
        yield RANGES_PER_STEP
    ordered = [members[index] for index in sorted(range(len(members)), key=keys.__getitem__)]
    yield len(ordered) // 2
    return ordered


def sort_key(member: MemberSubscription) -> str:
    """Static members come first, by their instance id; the others by their member id."""
    if member.instance_id is None:
        return "1" + by_utf16(member.member_id)
    return "0" + by_utf16(member.instance_id)


def by_utf16(text: str) -> str:
    """A string that compares as `text` does in Java, which compares UTF-16 code units."""
    if text.isascii():
        return text
    raw = text.encode("utf-16-be", "surrogatepass")
    return "".join([chr(high << 8 | low) for high, low in zip(raw[::2], raw[1::2], strict=True)])
