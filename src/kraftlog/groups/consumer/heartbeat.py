"""ConsumerGroupHeartbeat: a member joins, stays, changes what it wants, revokes, and leaves.

Each heartbeat is decided in one go: what the member changed, whether the group needs another epoch
and a target assignment for it, and the member's next step towards its target. The records of all of
that are one batch.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer import fencing, records, sessions, target
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.consumer.member import ConsumerMember, new_member
from kraftlog.groups.consumer.reconciliation import Reconciliation
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.consumer.requests import check, check_epoch, check_instance
from kraftlog.groups.consumer.states import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from kraftlog.groups.consumer.writes import write
from kraftlog.groups.records import group_tombstone
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import consumer_group_heartbeat as api

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.groups.consumer.group import Target
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.group import Group
    from kraftlog.groups.messages import RequestContext
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now


def heartbeat(
    shard: Shard,
    pending: object,
    context: RequestContext,
    request: api.ConsumerGroupHeartbeatRequest,
    now: Now,
) -> None:
    try:
        check(request, context.version, shard.config.consumer_assignors)
        if request.member_epoch in {LEAVE_EPOCH, LEAVE_STATIC_EPOCH}:
            _leave(shard, pending, request, now)
        else:
            _Heartbeat(shard, context, request, now).carry_out(pending)
    except RefusedRequestError as error:
        shard.respond(pending, error_response(error.code, error.message))


def error_response(code: int, message: str | None = None) -> api.ConsumerGroupHeartbeatResponse:
    return api.ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def _response(
    member: ConsumerMember, interval_ms: int, *, with_assignment: bool
) -> api.ConsumerGroupHeartbeatResponse:
    return api.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=api.Assignment(
            topic_partitions=[
                api.TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
                for topic_id, epochs in member.assigned.items()
            ]
        )
        if with_assignment
        else None,
    )


class _Heartbeat:
    """The decision on one heartbeat of a member that joins or stays."""

    def __init__(
        self,
        shard: Shard,
        context: RequestContext,
        request: api.ConsumerGroupHeartbeatRequest,
        now: Now,
    ) -> None:
        self._shard, self._context, self._request, self._now = shard, context, request, now
        self._records: list[GroupRecord] = []
        self._group = self._find_group()
        self._group_id = request.group_id
        #: The member that the request's member replaces, as the same static member.
        self._replaced: ConsumerMember | None = None
        #: The version of the topics with which the group's hash is compared; -1: not at all.
        self._compared_version = -1

    @property
    def _joins(self) -> bool:
        return self._request.member_epoch == JOIN_EPOCH

    def _find_group(self) -> ConsumerGroup:
        shard, group_id = self._shard, self._request.group_id
        group = shard.consumer_groups.get(group_id)
        if group is not None:
            return group
        if not self._joins:
            is_classic = group_id in shard.groups
            raise RefusedRequestError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a consumer group."
                if is_classic
                else f"Consumer group {group_id} not found.",
            )
        classic = shard.groups.get(group_id)
        if classic is not None:
            self._records += _replaced_classic_group(classic)
        return ConsumerGroup(group_id)

    def carry_out(self, pending: object) -> None:
        request, group = self._request, self._group
        self._check_size()
        before = self._member()
        after = self._updated(before)
        names_changed = after.topic_names != before.topic_names
        if after != before:
            self._records.append(records.member_metadata(self._group_id, after))
        regex_changed = (after.topic_regex or "") != (before.topic_regex or "")
        if regex_changed and group.regex_counts.get(before.topic_regex or "") == 1:
            self._records.append(records.removed_regex(self._group_id, before.topic_regex or ""))
        epoch = self._group_epoch(before, after, must_rise=names_changed or regex_changed)
        target_epoch, target_of_member = self._target(epoch, before, after)
        reconciled = self._reconciled(
            after,
            target_epoch,
            target_of_member,
            has_subscription_changed=names_changed or regex_changed,
        )
        is_full = (
            request.rebalance_timeout_ms != -1
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
            and request.topic_partitions is not None
        )
        response = _response(
            reconciled,
            self._shard.consumer_settings(self._group_id).heartbeat_interval_ms,
            with_assignment=self._joins or is_full or reconciled.assigned != before.assigned,
        )
        shard, now = self._shard, self._now
        write(shard, group, self._records, pending, response, error_response, now)
        classic = shard.groups.get(self._group_id)
        if classic is not None and classic.state != GroupState.DEAD:
            classic.enter(GroupState.DEAD, now)
        group.checked_version = max(group.checked_version, self._compared_version)
        sessions.restart(shard, group, reconciled.member_id, now)
        if reconciled != after:
            sessions.set_rebalance_timeout(shard, group, reconciled, now)

    # The member ----------------------------------------------------------------------------------

    def _check_size(self) -> None:
        request, group = self._request, self._group
        limit = self._shard.config.consumer_max_size
        is_known = request.instance_id in group.static_members or request.member_id in group.members
        if len(group.members) >= limit and not is_known:
            raise RefusedRequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _member(self) -> ConsumerMember:
        """The member as it was, or a new one."""
        request, group = self._request, self._group
        member_id = request.member_id or self._shard.new_member_id("").removeprefix("-")
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if self._joins:
                    return new_member(member_id)
                raise _unknown(member_id, self._group_id)
            check_epoch(member, request)
            return member
        static = group.static_member(request.instance_id)
        if not self._joins:
            member = check_instance(static, request)
            check_epoch(member, request)
            return member
        if static is None:
            return group.members.get(member_id) or new_member(member_id)
        return self._replacement(static, member_id)

    def _replacement(self, static: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member that returns, under another id, to the assignment that it left."""
        if static.epoch != LEAVE_STATIC_EPOCH and static.classic is None:
            raise RefusedRequestError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {static.instance_id} cannot join the "
                f"group because the instance id is owned by {static.member_id} member.",
            )
        member = static.replace(member_id=member_id, epoch=0, previous_epoch=0)
        self._replaced = static
        target_of_member = self._group.targets.get(static.member_id, {})
        self._records += [
            *records.removed_member(self._group_id, static.member_id),
            records.member_metadata(self._group_id, member),
            records.target_of_member(self._group_id, member_id, target_of_member),
            records.current_assignment(self._group_id, member),
        ]
        return member

    def _updated(self, member: ConsumerMember) -> ConsumerMember:
        """The member with what the request gives; what it leaves out stays."""
        request = self._request
        given: dict[str, Any] = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "server_assignor": request.server_assignor,
            "topic_regex": request.subscribed_topic_regex,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if request.rebalance_timeout_ms != -1:
            changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.subscribed_topic_names is not None:
            changes["topic_names"] = frozenset(request.subscribed_topic_names)
        return member.replace(
            client_id=self._context.client_id,
            client_host=self._context.client_host,
            classic=None,
            **changes,
        )

    # The group's epoch and the target assignment --------------------------------------------------

    def _group_epoch(
        self, before: ConsumerMember, after: ConsumerMember, *, must_rise: bool
    ) -> int:
        """The group's epoch: another one if the members, their wishes or the topics changed."""
        group, topics = self._group, self._shard.topics
        default = self._shard.config.consumer_assignors[0]
        must_rise = must_rise or group.preferred_assignor(default) != group.preferred_assignor(
            default, self._counted(before), after
        )
        if not must_rise and group.checked_version == topics.version:
            return group.epoch
        counted = self._counted(before)
        names = group.topics_after([] if counted is None else [counted], after)
        metadata_hash = topics.hash_of(names)
        self._compared_version = topics.version
        epoch = group.epoch
        if must_rise or metadata_hash != group.metadata_hash:
            epoch += 1
            self._records.append(records.group_epoch(self._group_id, epoch, metadata_hash))
        if group.has_partition_metadata:
            self._records.append(records.removed_partition_metadata(self._group_id))
        return epoch

    def _counted(self, before: ConsumerMember) -> ConsumerMember | None:
        """The member that the group counts and that the request's member replaces."""
        return self._replaced or self._group.members.get(before.member_id)

    def _target(
        self, epoch: int, before: ConsumerMember, after: ConsumerMember
    ) -> tuple[int, Target]:
        """The epoch of the target assignment, and the member's part of it."""
        shard, group, now = self._shard, self._group, self._now
        targets = dict(group.targets)
        members = dict(group.members)
        if self._replaced is not None:
            # The member takes the place of the one that it replaces, and its target.
            del members[self._replaced.member_id]
            targets[after.member_id] = targets.pop(self._replaced.member_id, {})
        interval_ms = shard.consumer_settings(self._group_id).assignment_interval_ms
        if group.target_epoch >= epoch or not target.may_assign(group, interval_ms, now):
            return group.target_epoch, targets.get(after.member_id, {})
        members[after.member_id] = after
        assignor = group.preferred_assignor(
            shard.config.consumer_assignors[0], self._counted(before), after
        )
        assigned, new_records = target.new_target(
            group, members, targets, epoch, assignor, shard.topics, now
        )
        self._records += new_records
        return epoch, assigned.get(after.member_id, {})

    def _reconciled(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target_of_member: Target,
        *,
        has_subscription_changed: bool,
    ) -> ConsumerMember:
        """The member after its next step towards the target."""
        if not has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        group, topics = self._group, self._shard.topics
        names = group.topics_of(member)

        def is_subscribed(topic_id: bytes) -> bool:
            topic = topics.with_id(topic_id)
            return topic is not None and topic.name in names

        reconciled = Reconciliation(
            group, target_epoch, target_of_member, is_subscribed, self._request.topic_partitions
        ).next_member(member, has_subscription_changed=has_subscription_changed)
        if reconciled != member:
            self._records.append(records.current_assignment(self._group_id, reconciled))
        return reconciled


def _replaced_classic_group(group: Group) -> list[GroupRecord]:
    """The tombstone of an empty classic group, whose place a consumer group takes."""
    if group.state == GroupState.DEAD:
        what = f"Group {group.group_id} is being deleted."
        raise RefusedRequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
    if group.state != GroupState.EMPTY:
        raise RefusedRequestError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because online "
            "upgrade is disabled.",
        )
    return [group_tombstone(group.group_id)]


# Leaving --------------------------------------------------------------------------------------


def _leave(
    shard: Shard, pending: object, request: api.ConsumerGroupHeartbeatRequest, now: Now
) -> None:
    """Remove a member, or keep the place of a static one that leaves for a while."""
    group_id = request.group_id
    group = shard.consumer_groups.get(group_id)
    if group is None:
        raise RefusedRequestError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {group_id} is not a consumer group."
            if group_id in shard.groups
            else f"Group {group_id} not found.",
        )
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown(request.member_id, group_id)
    else:
        member = check_instance(group.static_member(request.instance_id), request)
    response = api.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
    )
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        away = member.replace(
            epoch=LEAVE_STATIC_EPOCH,
            revoking={},
            assigned={
                topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()
            },
        )
        away_records = [records.current_assignment(group_id, away)]
        write(shard, group, away_records, pending, response, error_response, now)
        return
    fencing.fence(shard, group, [member], now, pending, response, error_response)


def _unknown(member_id: str, group_id: str) -> RefusedRequestError:
    return RefusedRequestError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )
