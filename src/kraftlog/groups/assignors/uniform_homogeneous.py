"""`uniform` for a group in which all members subscribe to the same topics.

Sizes differ by one at most. A member keeps what it owns up to its quota. Members below theirs get
the partitions that nobody owned, then those that were given back.
"""

from __future__ import annotations

from kraftlog.groups.assignors.hash_order import (
    copied_set_buckets,
    partitions_in_hash_order,
    strings_in_hash_order,
    topics_in_hash_order,
)
from kraftlog.groups.assignors.interface import AssignorError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from kraftlog.groups.assignors.interface import (
        Assignment,
        Assignments,
        MemberSubscription,
        SubscribedTopics,
    )
    from kraftlog.types import Uuid

#: Partitions that are visited in one step; each takes a few tenths of a microsecond.
PARTITIONS_PER_STEP = 2_000
#: Members that are visited in one step; each takes a few microseconds.
MEMBERS_PER_STEP = 200


def assign_homogeneous(
    members: Mapping[str, MemberSubscription], topics: SubscribedTopics
) -> Generator[int, None, Assignments]:
    """Assign in steps."""
    ordered = [members[member_id] for member_id in (yield from strings_in_hash_order(members))]
    topic_ids = ordered[0].topic_ids
    if not topic_ids:
        return {member.member_id: {} for member in ordered}
    free = yield from unowned_partitions(ordered, topic_ids, topics)
    partition_count = sum(map(topics.partition_count, topic_ids))
    builder = _Builder(topic_ids, partition_count, free, len(ordered))
    for start in range(0, len(ordered), MEMBERS_PER_STEP):
        for member in ordered[start : start + MEMBERS_PER_STEP]:
            builder.retain(member)
        yield 3 * MEMBERS_PER_STEP
    yield from builder.fill_in_steps()
    return builder.assignments


def unowned_partitions(
    members: Iterable[MemberSubscription], topic_ids: frozenset[Uuid], topics: SubscribedTopics
) -> Generator[int, None, list[tuple[Uuid, int]]]:
    """The partitions of these topics that no member owns, in Kafka's order."""
    owned: dict[Uuid, set[int]] = {topic_id: set() for topic_id in topic_ids}
    cost = 0
    for member in members:
        for topic_id, partitions in member.owned.items():
            if topic_id in owned:
                owned[topic_id].update(partitions)
            cost += 1 + len(partitions) // 8
        if cost >= MEMBERS_PER_STEP:
            yield cost
            cost = 0
    free: list[tuple[Uuid, int]] = []
    for topic_id in topics_in_hash_order(topic_ids, copied_set_buckets(len(topic_ids))):
        of_topic, count = owned[topic_id], topics.partition_count(topic_id)
        for start in range(0, count, PARTITIONS_PER_STEP):
            end = min(start + PARTITIONS_PER_STEP, count)
            free += [(topic_id, index) for index in range(start, end) if index not in of_topic]
            yield 1 + (end - start) // 8
    return free


class _Builder:
    """The assignment as it is built: `retain` for each member in order, then `fill_in_steps`."""

    __slots__ = (
        "_extra_count",
        "_free",
        "_members_left",
        "_minimum",
        "_topic_ids",
        "_unfilled",
        "assignments",
    )

    def __init__(
        self,
        topic_ids: frozenset[Uuid],
        partition_count: int,
        free: list[tuple[Uuid, int]],
        member_count: int,
    ) -> None:
        self._topic_ids = topic_ids
        self._free = free
        self._members_left = member_count
        #: Each member gets the minimum, and this number of them one more.
        self._minimum, self._extra_count = divmod(partition_count, member_count)
        self._unfilled: list[tuple[str, int]] = []
        self.assignments: Assignments = {}

    def retain(self, member: MemberSubscription) -> None:
        """Let the member keep up to its quota of what it owns; free the rest."""
        may_have_extra = self._extra_count > 0
        quota = self._minimum + may_have_extra
        kept, kept_count = self._kept(member.owned, quota)
        missing = quota - kept_count
        if missing > 0 and may_have_extra and self._members_left > self._extra_count:
            # There are members enough for the extra partitions, and a later one may own one.
            missing -= 1
            may_have_extra = False
        if missing > 0:
            self._unfilled.append((member.member_id, missing))
        self._extra_count -= may_have_extra
        self._members_left -= 1
        self.assignments[member.member_id] = kept

    def _kept(self, owned: Mapping[Uuid, frozenset[int]], quota: int) -> tuple[Assignment, int]:
        kept = {topic: owned[topic] for topic in owned if topic in self._topic_ids}
        count = sum(map(len, kept.values()))
        if count <= quota:
            return kept, count
        left = quota
        # The order is that of the whole table, with the topics that are not subscribed any more.
        for topic_id in topics_in_hash_order(owned):
            if topic_id not in kept:
                continue
            partitions = kept[topic_id]
            if len(partitions) > left:
                in_order = partitions_in_hash_order(partitions)
                self._free += [(topic_id, partition) for partition in in_order[left:]]
                kept[topic_id] = partitions = frozenset(in_order[:left])
            left -= len(partitions)
            if not partitions:
                del kept[topic_id]
        return kept, quota

    def fill_in_steps(self) -> Generator[int, None, None]:
        """Give the free partitions to the members below their quotas."""
        start = cost = 0
        for member_id, missing in self._unfilled:
            assignment = self.assignments[member_id]
            given: dict[Uuid, list[int]] = {}
            for topic_id, partition in self._free[start : start + missing]:
                given.setdefault(topic_id, []).append(partition)
            for topic_id, partitions in given.items():
                assignment[topic_id] = assignment.get(topic_id, frozenset()).union(partitions)
            start += missing
            cost += 2 + missing // 4
            if cost >= MEMBERS_PER_STEP:
                yield cost
                cost = 0
        if start < len(self._free):
            raise AssignorError(f"{len(self._free) - start} partitions were left unassigned")
