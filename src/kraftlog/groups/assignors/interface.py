"""What an assignor gets and returns; Kafka's GroupSpec, SubscribedTopicDescriber, GroupAssignment.

An assignor is pure: equal arguments give equal results, on every broker. It is called with all
members of a group when the members, their subscriptions or the topics have changed.
"""

from __future__ import annotations

from kraftlog.types import Uuid
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import Protocol

    class Assignor(Protocol):
        """Assigns in steps (kraftlog.steps), so that a large group does not stop the node."""

        def __call__(
            self, members: Mapping[str, MemberSubscription], topics: SubscribedTopics, /
        ) -> Generator[int, None, Assignments]: ...


class AssignorError(Exception):
    """An assignor cannot assign; Kafka's PartitionAssignorException."""


class MemberSubscription(Value):
    """A member of a group, what it subscribes to, and its target assignment until now."""

    member_id: str
    #: The topics that exist of those that it names, or that its regular expression matches.
    topic_ids: frozenset[Uuid]
    owned: Mapping[Uuid, frozenset[int]]
    instance_id: str | None = None
    rack_id: str | None = None


class SubscribedTopics(Value):
    """The topics that any member subscribes to."""

    partition_counts: Mapping[Uuid, int]
    #: The racks of each partition's replicas; neither `uniform` nor `range` looks at them.
    racks: Mapping[Uuid, Mapping[int, frozenset[str]]]
    #: Whether all members subscribe to the same, as the group counts it by names and regular
    #: expressions. Two expressions that match the same topics are different subscriptions.
    is_homogeneous: bool

    def partition_count(self, topic_id: Uuid) -> int:
        """The number of partitions; raises AssignorError if there is no such topic."""
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorError(f"a member subscribes to topic {topic_id.hex()}, which is unknown")
        return count


#: The partitions of one member, by topic; and those of all members, by member id.
Assignment = dict[Uuid, frozenset[int]]
Assignments = dict[str, Assignment]
