"""The assignors that every node has, by Kafka's names."""

from __future__ import annotations

from kraftlog.groups.assignors.range_assignor import assign_ranges
from kraftlog.groups.assignors.uniform import assign_uniformly
from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.groups.assignors.interface import (
        Assignments,
        Assignor,
        MemberSubscription,
        SubscribedTopics,
    )

#: The default of group.consumer.assignors: the first is that of members that name none.
BUILTIN_ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}


def assign(
    name: str, members: Mapping[str, MemberSubscription], topics: SubscribedTopics
) -> Assignments:
    """Assign at once."""
    return result_of(BUILTIN_ASSIGNORS[name](members, topics))
