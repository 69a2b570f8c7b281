"""`uniform`: equal numbers of partitions for all members, with as few moves as possible."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from kraftlog.groups.assignors.interface import (
        Assignments,
        MemberSubscription,
        SubscribedTopics,
    )


def assign_uniformly(
    members: Mapping[str, MemberSubscription], topics: SubscribedTopics, /
) -> Generator[int, None, Assignments]:
    """Assign in steps; groups whose members subscribe to the same have the simpler rules."""
    if not members:
        return {}
    if topics.is_homogeneous:
        from kraftlog.groups.assignors.uniform_homogeneous import assign_homogeneous as assign
    else:
        from kraftlog.groups.assignors.uniform_heterogeneous import assign_heterogeneous as assign
    return (yield from assign(members, topics))
