"""How a member moves from its current assignment to its target assignment.

First it revokes what is not in its target, and confirms that with a heartbeat; then it enters the
epoch of the target and gets what is free of it; the rest follows as other members release it. So a
partition has one owner at any time, and a member keeps what stays with it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.consumer.states import MemberState
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup, Target
    from kraftlog.groups.consumer.member import ConsumerMember, EpochsOfPartitions
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.consumer_group_heartbeat import TopicPartitions


class Reconciliation:
    """One step of one member; `next_member` returns the member after it."""

    def __init__(
        self,
        group: ConsumerGroup,
        target_epoch: int,
        target: Target,
        is_subscribed: Callable[[Uuid], bool],
        owned: Sequence[TopicPartitions] | None,
    ) -> None:
        """`owned`: the partitions that the member reports to have; None if it reports none."""
        self._group = group
        self._target_epoch = target_epoch
        self._target = target
        self._is_subscribed = is_subscribed
        self._owned = owned

    def next_member(
        self, member: ConsumerMember, *, has_subscription_changed: bool
    ) -> ConsumerMember:
        if member.state == MemberState.UNKNOWN:
            if self._owned is not None and not self._owned:
                return self._next(member, self._target_epoch)
            raise RefusedRequestError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its "
                "partitions and rejoin.",
            )
        is_waiting = (
            member.epoch == self._target_epoch
            if member.state == MemberState.STABLE
            else member.state == MemberState.UNREVOKED_PARTITIONS
            and self._still_owns(member.revoking)
        )
        if not is_waiting:
            return self._next(member, member.epoch)
        return self._without_unsubscribed(member) if has_subscription_changed else member

    def _still_owns(self, revoking: EpochsOfPartitions) -> bool:
        """Whether the member has not confirmed that it has revoked all of these."""
        if self._owned is None:
            return True
        return any(
            index in revoking.get(topic.topic_id, ())
            for topic in self._owned
            for index in topic.partitions
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Let a member that waits give up the topics to which it subscribes no more."""
        dropped = [each for each in member.assigned if not self._is_subscribed(each)]
        if not dropped:
            return member
        revoking = {topic_id: dict(epochs) for topic_id, epochs in member.revoking.items()}
        for topic_id in dropped:
            revoking.setdefault(topic_id, {}).update(member.assigned[topic_id])
        assigned = {
            topic_id: epochs
            for topic_id, epochs in member.assigned.items()
            if topic_id not in dropped
        }
        after = member.replace(previous_epoch=member.epoch, assigned=assigned)
        if self._still_owns(revoking):
            after = after.replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return after

    def _next(self, member: ConsumerMember, epoch_to_revoke: int) -> ConsumerMember:
        """Let the member revoke, or enter the target's epoch with all of it that is free."""
        assigned: dict[Uuid, dict[int, int]] = {}
        revoking: dict[Uuid, dict[int, int]] = {}
        free: dict[Uuid, list[int]] = {}
        waits = False
        for topic_id in {**self._target, **member.assigned}:
            current = member.assigned.get(topic_id, {})
            wanted = self._target.get(topic_id, frozenset())
            if not self._is_subscribed(topic_id):
                wanted = frozenset()
            kept = {index: since for index, since in current.items() if index in wanted}
            lost = {index: since for index, since in current.items() if index not in wanted}
            missing = sorted(wanted - kept.keys())
            available = [each for each in missing if self._is_free(member, topic_id, each)]
            waits = waits or len(available) < len(missing)
            for part, by_topic in ((kept, assigned), (lost, revoking)):
                if part:
                    by_topic[topic_id] = part
            if available:
                free[topic_id] = available
        if revoking and self._still_owns(revoking):
            return member.replace(
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch_to_revoke,
                previous_epoch=member.epoch,
                assigned=assigned,
                revoking=revoking,
            )
        for topic_id, indexes in free.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(indexes, self._target_epoch))
        return member.replace(
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            epoch=self._target_epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking={},
        )

    def _is_free(self, member: ConsumerMember, topic_id: Uuid, index: int) -> bool:
        """Whether nobody has a partition, or the member itself has just revoked it."""
        return not self._group.is_owned(topic_id, index) or index in member.revoking.get(
            topic_id, ()
        )
