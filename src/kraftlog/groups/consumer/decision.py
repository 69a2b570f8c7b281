"""`Decision`: what a member's request changes in its group, as records of one batch.

Heartbeats of the consumer protocol and joins of the classic one go the same way: the member as it
will be, the group's epoch, the target assignment, and the member's next step towards it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer import records, regexes, sessions, target
from kraftlog.groups.consumer.member import new_member
from kraftlog.groups.consumer.reconciliation import Reconciliation
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.consumer.states import LEAVE_STATIC_EPOCH
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup, Target
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now
    from kraftlog.wire.messages.consumer_group_heartbeat import TopicPartitions


class Decision:
    """The decision on one request of one member; it changes nothing but `records`."""

    def __init__(
        self, shard: Shard, group: ConsumerGroup, first_records: list[GroupRecord], now: Now
    ) -> None:
        self._shard, self.group, self._now = shard, group, now
        self.records = first_records
        #: Whether a changed subscription asks for another epoch of the group.
        self.needs_epoch = False
        #: The member that the request's member replaces, as the same static member.
        self._replaced: ConsumerMember | None = None
        #: The version of the topics with which the group's hash is compared; -1: not at all.
        self._compared_version = -1

    def check_size(self, member_id: str, instance_id: str | None) -> None:
        """Refuse a new member of a full group."""
        group, limit = self.group, self._shard.config.consumer_max_size
        is_known = instance_id in group.static_members or member_id in group.members
        if len(group.members) >= limit and not is_known:
            raise RefusedRequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    # The member ----------------------------------------------------------------------------------

    def joining_member(self, member_id: str) -> ConsumerMember:
        """A member that joins: as it is, or a new one."""
        return self.group.members.get(member_id) or new_member(member_id)

    def joining_static_member(
        self, member_id: str, instance_id: str, *, speaks_classic: bool
    ) -> ConsumerMember:
        """A static member that joins; under another id, it gets the assignment that it left."""
        static = self.group.static_member(instance_id)
        if static is None:
            return self.joining_member(member_id)
        must_be_released = not speaks_classic and static.classic is None
        if must_be_released and static.epoch != LEAVE_STATIC_EPOCH:
            raise RefusedRequestError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the "
                f"group because the instance id is owned by {static.member_id} member.",
            )
        member = static.replace(member_id=member_id, epoch=0, previous_epoch=0)
        self._replaced = static
        group = self.group
        target_of_member = group.targets.get(static.member_id, {})
        self.records += [
            *records.removed_member(group.group_id, static.member_id),
            records.member_metadata(group.group_id, member),
            records.target_of_member(group.group_id, member_id, target_of_member),
            records.current_assignment(group.group_id, member),
        ]
        return member

    def change_metadata(self, before: ConsumerMember, after: ConsumerMember) -> bool:
        """Record the changes of a member; whether its subscription is another one.

        A new expression has no topics yet: the group's epoch rises when it has been resolved.
        """
        group = self.group
        if after != before:
            self.records.append(records.member_metadata(group.group_id, after))
        former_regex = before.topic_regex or ""
        regex_changed = (after.topic_regex or "") != former_regex
        if regex_changed and group.regex_counts.get(former_regex) == 1:
            self.records.append(records.removed_regex(group.group_id, former_regex))
        regex = after.topic_regex or ""
        if regex_changed and regex and regex not in group.regex_counts:
            regexes.check(regex)
        names_changed = after.topic_names != before.topic_names
        has_topics = not regex or regex in group.resolved_regexes
        self.needs_epoch = names_changed or (regex_changed and has_topics)
        return regex_changed or names_changed

    def _counted(self, before: ConsumerMember) -> ConsumerMember | None:
        """The member that the group counts and that the request's member replaces."""
        return self._replaced or self.group.members.get(before.member_id)

    # The group's epoch and the target assignment --------------------------------------------------

    def prefers_another_assignor(self, before: ConsumerMember, after: ConsumerMember) -> bool:
        group, default = self.group, self._shard.config.consumer_assignors[0]
        preferred = group.preferred_assignor(default, self._counted(before), after)
        return preferred != group.preferred_assignor(default)

    def group_epoch(self, before: ConsumerMember, after: ConsumerMember, *, must_rise: bool) -> int:
        """The group's epoch: another one if it must rise, or if the topics have changed."""
        group, topics = self.group, self._shard.topics
        if not must_rise and group.checked_version == topics.version:
            return group.epoch
        counted = self._counted(before)
        names = group.topics_after([] if counted is None else [counted], after)
        metadata_hash = topics.hash_of(names)
        self._compared_version = topics.version
        epoch = group.epoch
        if must_rise or metadata_hash != group.metadata_hash:
            epoch += 1
            self.records.append(records.group_epoch(group.group_id, epoch, metadata_hash))
        if group.has_partition_metadata:
            self.records.append(records.removed_partition_metadata(group.group_id))
        return epoch

    def last_target(self, after: ConsumerMember) -> Target:
        """The member's part of the last target assignment, or that of the one it replaces."""
        owner_id = after.member_id if self._replaced is None else self._replaced.member_id
        return self.group.targets.get(owner_id, {})

    def target(
        self, epoch: int, before: ConsumerMember, after: ConsumerMember
    ) -> tuple[int, Target]:
        """The epoch of the target assignment, and the member's part of it."""
        shard, group, now = self._shard, self.group, self._now
        interval_ms = shard.consumer_settings(group.group_id).assignment_interval_ms
        replaced = self._replaced
        if group.target_epoch >= epoch or not target.may_assign(group, interval_ms, now):
            return group.target_epoch, self.last_target(after)
        members, targets = dict(group.members), dict(group.targets)
        if replaced is not None:
            # The member takes the place of the one that it replaces, and its target.
            del members[replaced.member_id]
            targets[after.member_id] = targets.pop(replaced.member_id, {})
        members[after.member_id] = after
        assignor = group.preferred_assignor(
            shard.config.consumer_assignors[0], self._counted(before), after
        )
        assigned, new_records = target.new_target(
            group,
            members,
            targets,
            epoch,
            target.assignor_named(assignor, shard.config),
            shard.topics,
            now,
        )
        self.records += new_records
        return epoch, assigned.get(after.member_id, {})

    def reconciled(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target_of_member: Target,
        owned: Sequence[TopicPartitions] | None,
        *,
        has_subscription_changed: bool,
    ) -> ConsumerMember:
        """The member after its next step towards the target; `owned`: what it reports to have."""
        if not has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        group, topics = self.group, self._shard.topics
        names = group.topics_of(member)

        def is_subscribed(topic_id: bytes) -> bool:
            topic = topics.with_id(topic_id)
            return topic is not None and topic.name in names

        reconciled = Reconciliation(
            group, target_epoch, target_of_member, is_subscribed, owned
        ).next_member(member, has_subscription_changed=has_subscription_changed)
        if reconciled != member:
            self.records.append(records.current_assignment(group.group_id, reconciled))
        return reconciled

    def accepted(self, member: ConsumerMember, *, has_moved: bool) -> None:
        """Set the timers once the records are applied; the topics count as compared."""
        group = self.group
        group.checked_version = max(group.checked_version, self._compared_version)
        sessions.restart(self._shard, group, member.member_id, self._now)
        if has_moved:
            sessions.set_rebalance_timeout(self._shard, group, member, self._now)
