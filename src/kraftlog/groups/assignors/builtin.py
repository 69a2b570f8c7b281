"""The assignors that every node has, by Kafka's names."""

from __future__ import annotations

from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from kraftlog.groups.assignors.interface import (
        Assignments,
        Assignor,
        MemberSubscription,
        SubscribedTopics,
    )


def _assign_ranges(
    members: Mapping[str, MemberSubscription], topics: SubscribedTopics, /
) -> Generator[int, None, Assignments]:
    """Assign each topic's partitions in contiguous ranges, in the members' order."""
    assignments: Assignments = {member_id: {} for member_id in members}
    for topic_id in topics.partition_counts:
        subscribers = sorted(
            [each for each in members if topic_id in members[each].topic_ids],
            key=lambda each: _position(members[each]),
        )
        size, larger = divmod(topics.partition_count(topic_id), max(len(subscribers), 1))
        first = 0
        for position, member_id in enumerate(subscribers):
            end = first + size + (position < larger)
            if end > first:
                assignments[member_id][topic_id] = frozenset(range(first, end))
            first = end
        yield len(subscribers)
    return assignments


def _position(member: MemberSubscription) -> tuple[bool, str]:
    """Static members come first, by their instance id; the others by their member id."""
    return member.instance_id is None, member.instance_id or member.member_id


#: The default of group.consumer.assignors: the first is that of members that name none.
BUILTIN_ASSIGNORS: dict[str, Assignor] = {"uniform": _assign_ranges, "range": _assign_ranges}


def assign(
    name: str, members: Mapping[str, MemberSubscription], topics: SubscribedTopics
) -> Assignments:
    """Assign at once."""
    return result_of(BUILTIN_ASSIGNORS[name](members, topics))
