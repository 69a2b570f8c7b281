"""`ConsumerGroup`: members, epochs and assignments of a group, as of the last decision.

The state is a function of records: `apply` is the only method that changes it, when a group is
loaded and with each decision, before its batch is committed. Decisions follow one another without
waiting for the disk, and a response leaves once the batch with its state is committed. If a batch
fails, the group is built again from the committed records and the batches that are still pending,
in their order: that is what a coordinator that loads the log would have, so nothing of the failed
batch remains, and no undo has to be written for any decision.
"""

from __future__ import annotations

from kraftlog.groups.consumer.member import new_member
from kraftlog.groups.consumer.states import ConsumerGroupState
from kraftlog.groups.consumer.stored import name_in
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import consumer_group_records as messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.consumer.stored import StoredConsumerGroup
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.schema import Message

    Target = Mapping[Uuid, frozenset[int]]

#: A new group has an epoch and an empty target assignment for it.
FIRST_EPOCH = 1


class ResolvedRegex(Value):
    """The topics that match a regular expression, and the metadata from which they are."""

    topics: frozenset[str]
    version: int
    timestamp: int


class MemberTimers:
    """The timers of a member.

    `rebalance` runs while it has partitions to revoke. A classic member, which cannot say that it
    has revoked them, has time to join again instead, and then to get its assignment: `join` and
    `sync`.
    """

    __slots__ = ("join", "rebalance", "session", "sync")

    def __init__(self, fence: Callable[[Now], None]) -> None:
        """`fence` removes the member."""
        self.session, self.rebalance = Timer(fence), Timer(fence)
        self.join, self.sync = Timer(fence), Timer(fence)


class ConsumerGroup:
    """The state of a group; `apply` alone changes what records describe."""

    __slots__ = (
        "assignor_counts",
        "checked_version",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "is_resolving",
        "members",
        "metadata_hash",
        "owners",
        "regex_counts",
        "resolved_regexes",
        "static_members",
        "target_epoch",
        "target_ms",
        "targets",
        "timers",
        "topic_counts",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        #: Of each member that has some.
        self.timers: dict[str, MemberTimers] = {}
        #: Whether its regular expressions are being resolved.
        self.is_resolving = False
        self.clear()

    def clear(self) -> None:
        """Forget all records; timers stay."""
        self.epoch = FIRST_EPOCH
        #: A hash of the subscribed topics, from Kafka's algorithm.
        self.metadata_hash = 0
        #: The version of the topics with which the hash was last compared; -1: none.
        self.checked_version = -1
        #: Whether there is a record that coordinators before Kafka 4.1 wrote.
        self.has_partition_metadata = False
        self.target_epoch = FIRST_EPOCH
        #: When the target assignment was computed, as wall time; 0: long ago.
        self.target_ms = 0
        self.targets: dict[str, Target] = {}
        self.members: dict[str, ConsumerMember] = {}
        #: Instance id -> member id.
        self.static_members: dict[str, str] = {}
        #: The member that has a partition or has yet to revoke it; no partition has two.
        self.owners: dict[Uuid, dict[int, str]] = {}
        #: Numbers of members that subscribe to a topic by name or to a regular expression, and
        #: that prefer an assignor.
        self.topic_counts: dict[str, int] = {}
        self.regex_counts: dict[str, int] = {}
        self.assignor_counts: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}

    # Records -------------------------------------------------------------------------------------

    def load(self, stored: StoredConsumerGroup) -> None:
        """Apply the committed records; a member's metadata come first, as they make the member."""
        of_members = messages.ConsumerGroupMemberMetadataKey
        for key_class, name, value in stored.records():
            if key_class is of_members:
                _APPLY[key_class](self, name, value)
        for key_class, name, value in stored.records():
            if key_class is not of_members:
                _APPLY[key_class](self, name, value)

    def apply(self, key: Message, value: Message | None) -> None:
        _APPLY[type(key)](self, name_in(key), value)

    def _apply_epoch(self, _: str, value: Any) -> None:
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _apply_partition_metadata(self, _: str, value: Any) -> None:
        self.has_partition_metadata = value is not None

    def _apply_target_epoch(self, _: str, value: Any) -> None:
        self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        self.target_ms = 0 if value is None else value.assignment_timestamp

    def _apply_target(self, member_id: str, value: Any) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }

    def _apply_member(self, member_id: str, value: Any) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._replace(before, (before or new_member(member_id)).with_metadata(value))
        elif before is not None:
            self._replace(before, None)
            del self.members[member_id]

    def _apply_assignment(self, member_id: str, value: Any) -> None:
        before = self.members.get(member_id)
        if before is None:
            return  # the member's metadata make it
        if value is None:
            # What follows removes the member; its partitions are free from now on.
            after = before.replace(epoch=-1, previous_epoch=-1, assigned={}, revoking={})
        else:
            after = before.with_assignment(value)
        self._replace(before, after)

    def _apply_regex(self, regex: str, value: Any) -> None:
        if value is None:
            self.resolved_regexes.pop(regex, None)
        else:
            self.resolved_regexes[regex] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _replace(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Replace a member in the maps and counts."""
        if before is not None:
            self._count(before, -1)
            self._release(before)
            instance_id = before.instance_id
            if self.static_members.get(instance_id or "") == before.member_id:
                del self.static_members[instance_id or ""]
        if after is not None:
            self._count(after, 1)
            self.members[after.member_id] = after
            for topic_id, index in partitions_of(after):
                self.owners.setdefault(topic_id, {})[index] = after.member_id
            if after.instance_id is not None:
                self.static_members[after.instance_id] = after.member_id

    def _release(self, member: ConsumerMember) -> None:
        for topic_id, index in partitions_of(member):
            owners = self.owners.get(topic_id, {})
            if owners.get(index) == member.member_id:
                del owners[index]
                if not owners:
                    del self.owners[topic_id]

    def _count(self, member: ConsumerMember, by: int) -> None:
        for name in member.topic_names:
            add(self.topic_counts, name, by)
        if member.topic_regex:
            add(self.regex_counts, member.topic_regex, by)
        if member.server_assignor is not None:
            add(self.assignor_counts, member.server_assignor, by)

    # Queries -------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_owned(self, topic_id: Uuid, index: int) -> bool:
        return index in self.owners.get(topic_id, ())

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member subscribes to, by name or by expression."""
        resolved = self.resolved_regexes.get(member.topic_regex or "")
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topic_counts or any(
            topic in resolved.topics for resolved in self.resolved_regexes.values()
        )

    def topics_after(
        self, before: Iterable[ConsumerMember], after: ConsumerMember | None = None
    ) -> set[str]:
        """The subscribed topics once `after`, if any, replaces the members `before`."""
        names, regexes = dict(self.topic_counts), dict(self.regex_counts)
        for member, by in [*[(each, -1) for each in before], (after, 1)]:
            if member is not None:
                for name in member.topic_names:
                    add(names, name, by)
                if member.topic_regex:
                    add(regexes, member.topic_regex, by)
        topics = set(names)
        for regex in regexes:
            resolved = self.resolved_regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return topics

    def preferred_assignor(
        self,
        default: str,
        before: ConsumerMember | None = None,
        after: ConsumerMember | None = None,
    ) -> str:
        """The assignor that most members prefer, once `after` replaces `before`."""
        counts = dict(self.assignor_counts)
        for member, by in ((before, -1), (after, 1)):
            if member is not None and member.server_assignor is not None:
                add(counts, member.server_assignor, by)
        return max(counts, key=counts.__getitem__, default=default)


_APPLY: dict[type[Message], Callable[[ConsumerGroup, str, Any], None]] = {
    messages.ConsumerGroupMetadataKey: ConsumerGroup._apply_epoch,
    messages.ConsumerGroupPartitionMetadataKey: ConsumerGroup._apply_partition_metadata,
    messages.ConsumerGroupMemberMetadataKey: ConsumerGroup._apply_member,
    messages.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._apply_target_epoch,
    messages.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._apply_target,
    messages.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._apply_assignment,
    messages.ConsumerGroupRegularExpressionKey: ConsumerGroup._apply_regex,
}


def partitions_of(member: ConsumerMember) -> Iterator[tuple[Uuid, int]]:
    """The partitions that a member has or has yet to revoke."""
    for assignment in (member.assigned, member.revoking):
        for topic_id, indexes in assignment.items():
            for index in indexes:
                yield topic_id, index


def add(counts: dict[str, int], name: str, by: int) -> None:
    """Change a count; names with a count of 0 are left out."""
    left = counts.get(name, 0) + by
    if left:
        counts[name] = left
    else:
        del counts[name]
