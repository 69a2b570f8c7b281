"""ConsumerGroupHeartbeat: a member joins, stays, changes what it wants, revokes, and leaves.

Each heartbeat is decided in one go: what the member changed, whether the group needs another epoch
and a target assignment for it, and the member's next step towards its target. The records of all of
that are one batch.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer import fencing, records, regexes
from kraftlog.groups.consumer.decision import Decision
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.consumer.refused import RefusedRequestError, unknown_member
from kraftlog.groups.consumer.requests import check, check_epoch, check_instance
from kraftlog.groups.consumer.states import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
)
from kraftlog.groups.consumer.upgrade import upgraded
from kraftlog.groups.consumer.writes import write
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import consumer_group_heartbeat as api

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
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
            _beat(shard, pending, context, request, now)
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


def _beat(
    shard: Shard,
    pending: object,
    context: RequestContext,
    request: api.ConsumerGroupHeartbeatRequest,
    now: Now,
) -> None:
    """Decide the heartbeat of a member that joins or stays."""
    group, first_records = _group_of(shard, request)
    decision = Decision(shard, group, first_records, now)
    decision.check_size(request.member_id, request.instance_id)
    before = _member(shard, decision, request)
    after = _updated(before, context, request)
    has_subscription_changed = decision.change_metadata(before, after)
    must_rise = decision.needs_epoch or decision.prefers_another_assignor(before, after)
    epoch = decision.group_epoch(before, after, must_rise=must_rise)
    reconciled = decision.reconciled(
        after,
        *decision.target(epoch, before, after),
        request.topic_partitions,
        has_subscription_changed=has_subscription_changed,
    )
    is_full = (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )
    joins = request.member_epoch == JOIN_EPOCH
    response = _response(
        reconciled,
        shard.consumer_settings(group.group_id).heartbeat_interval_ms,
        with_assignment=joins or is_full or reconciled.assigned != before.assigned,
    )
    write(shard, group, decision.records, pending, response, error_response, now)
    shard.retire_classic_group(group.group_id, now)
    decision.accepted(reconciled, has_moved=reconciled != after)
    regexes.resolve_if_due(shard, group, context.may_describe, now)


def _group_of(
    shard: Shard, request: api.ConsumerGroupHeartbeatRequest
) -> tuple[ConsumerGroup, list[GroupRecord]]:
    """The group, or the one that a joining member makes, and the records that make it."""
    group_id = request.group_id
    group = shard.consumer_groups.get(group_id)
    if group is not None:
        return group, []
    classic = shard.groups.get(group_id)
    if request.member_epoch != JOIN_EPOCH:
        what = f"Consumer group {group_id} not found."
        if classic is not None:
            what = f"Group {group_id} is not a consumer group."
        raise RefusedRequestError(ErrorCode.GROUP_ID_NOT_FOUND, what)
    if classic is None:
        return ConsumerGroup(group_id), []
    return upgraded(shard, classic)


def _member(
    shard: Shard, decision: Decision, request: api.ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member as it was, or a new one."""
    group = decision.group
    if request.member_epoch == JOIN_EPOCH:
        member_id = request.member_id or shard.new_member_id("").removeprefix("-")
        if request.instance_id is None:
            return decision.joining_member(member_id)
        return decision.joining_static_member(member_id, request.instance_id, speaks_classic=False)
    member = _known_member(group, request)
    check_epoch(member, request)
    return member


def _known_member(
    group: ConsumerGroup, request: api.ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with the request's member id, and with its instance id if it has one."""
    if request.instance_id is not None:
        return check_instance(group.static_member(request.instance_id), request)
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(request.member_id, group.group_id)
    return member


def _updated(
    member: ConsumerMember, context: RequestContext, request: api.ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with what the request gives; what it leaves out stays."""
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
        client_id=context.client_id, client_host=context.client_host, classic=None, **changes
    )


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
    member = _known_member(group, request)
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
