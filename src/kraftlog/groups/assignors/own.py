"""Assignors that users write: a function, whose results are checked.

A package offers one as an entry point of the group `kraftlog.group.assignors`; its name is then
used like a built-in one in group.consumer.assignors and by members:

    [project.entry-points."kraftlog.group.assignors"]
    by-rack = "our_package:assign_by_rack"

    def assign_by_rack(members, topics):
        return {member_id: {topic_id: partitions, ...} for member_id in members}

The function must be pure: the next coordinator computes the assignment again. One that takes long
is a generator, which yields about every millisecond what it has cost in microseconds.
"""

from __future__ import annotations

from kraftlog.groups.assignors.interface import AssignorError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Any

    from kraftlog.groups.assignors.interface import (
        Assignment,
        Assignments,
        Assignor,
        MemberSubscription,
        SubscribedTopics,
    )
    from kraftlog.types import Uuid

#: Partitions that are checked in one step.
PARTITIONS_PER_STEP = 1_000


def checked(name: str, function: Callable[..., Any]) -> Assignor:
    """The function as an assignor that raises AssignorError for whatever is wrong with it."""

    def assign(
        members: Mapping[str, MemberSubscription], topics: SubscribedTopics, /
    ) -> Generator[int, None, Assignments]:
        try:
            result = function(members, topics)
            if hasattr(result, "send"):
                result = yield from result
            return (yield from _check_in_steps(result, members, topics))
        except AssignorError:
            raise
        except Exception as error:
            raise AssignorError(f"assignor {name}: {type(error).__name__}: {error}") from error

    return assign


def _check_in_steps(
    result: Mapping[str, Mapping[Uuid, Any]],
    members: Mapping[str, MemberSubscription],
    topics: SubscribedTopics,
) -> Generator[int, None, Assignments]:
    """Copy the result; no partition is given twice, or to a member that does not subscribe."""
    given: dict[Uuid, set[int]] = {}
    assignments: Assignments = {}
    cost = 0
    for member_id, by_topic in result.items():
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"partitions are given to {member_id!r}, which is not a member")
        assignment: Assignment = {}
        for topic_id, partitions in by_topic.items():
            if topic_id not in member.topic_ids:
                raise AssignorError(
                    f"{member_id} gets partitions of {topic_id!r}, to which it does not subscribe"
                )
            indexes = frozenset(partitions)
            _check_partitions(topic_id, indexes, given.setdefault(topic_id, set()), topics)
            if indexes:
                assignment[topic_id] = indexes
            cost += 1 + len(indexes)
        assignments[member_id] = assignment
        if cost >= PARTITIONS_PER_STEP:
            yield cost // 2
            cost = 0
    return assignments


def _check_partitions(
    topic_id: Uuid, indexes: frozenset[int], given: set[int], topics: SubscribedTopics
) -> None:
    count = topics.partition_count(topic_id)
    for index in indexes:
        if type(index) is not int or not 0 <= index < count:
            raise AssignorError(f"{topic_id.hex()} has no partition {index!r}, only {count}")
    if not given.isdisjoint(indexes):
        twice = min(given & indexes)
        raise AssignorError(f"partition {twice} of {topic_id.hex()} is given to two members")
    given |= indexes
