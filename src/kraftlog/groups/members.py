"""SyncGroup, Heartbeat and LeaveGroup: the requests of members."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups import rebalance
from kraftlog.groups.pending_writes import coordinator_error
from kraftlog.groups.records import group_record
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.heartbeat import HeartbeatResponse
from kraftlog.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from kraftlog.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kraftlog.groups.group import Group
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.member import Member
    from kraftlog.groups.messages import RequestContext
    from kraftlog.types import Now
    from kraftlog.wire.messages.heartbeat import HeartbeatRequest
    from kraftlog.wire.messages.leave_group import LeaveGroupRequest
    from kraftlog.wire.messages.sync_group import SyncGroupRequest

#: From this version on, one LeaveGroup request can remove several members.
SEVERAL_SINCE = 3

# SyncGroup ------------------------------------------------------------------------------------


def sync(shard: Shard, pending: object, request: SyncGroupRequest, now: Now) -> None:
    consumer_group = shard.consumer_groups.get(request.group_id)
    if consumer_group is not None:
        from kraftlog.groups.consumer import classic_members

        classic_members.sync(shard, pending, consumer_group, request, now)
        return
    group = shard.groups.get(request.group_id)
    code = _sync_error(group, request)
    if code or group is None:
        shard.respond(pending, no_assignment(code))
        return
    member = group.members[request.member_id]
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        shard.timers.cancel(group.sync_timer)
    if group.state == GroupState.STABLE:
        shard.respond(pending, _assignment(group, member))
        return
    shard.respond(take_syncing(member), no_assignment(ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = pending
    if group.leader == member.member_id:
        _assign(
            shard, group, {each.member_id: each.assignment for each in request.assignments}, now
        )


def no_assignment(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def take_syncing(member: Member) -> Any:
    """Remove and return the response of the member's pending SyncGroup, if any."""
    pending, member.syncing = member.syncing, None
    return pending


def fail_pending_syncs(shard: Shard, group: Group, code: int, now: Now) -> None:
    """Clear all assignments, and respond to pending SyncGroup requests with an error code."""
    for member in group.members.values():
        member.assignment = b""
        if member.syncing is not None:
            shard.respond(take_syncing(member), no_assignment(code))
            shard.restart_session(group, member, member.session_timeout_ms, now)


def _sync_error(group: Group | None, request: SyncGroupRequest) -> int:
    if group is None or group.state == GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    if group.state == GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.membership_error(request.member_id, request.group_instance_id)
    if code:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state == GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(requested: str | None, known: str | None) -> bool:
    return requested is not None and known is not None and requested != known


def _assign(shard: Shard, group: Group, assignments: Mapping[str, bytes], now: Now) -> None:
    """Write the leader's assignment; respond to all members once it is committed."""
    generation = group.generation

    def on_done(code: int, later: Now) -> None:
        if group.state != GroupState.COMPLETING or group.generation != generation:
            return  # a member joined or left while it was written
        if code:
            fail_pending_syncs(shard, group, coordinator_error(code), later)
            rebalance.prepare_or_complete(shard, group, later)
            return
        group.enter(GroupState.STABLE, later)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                shard.respond(take_syncing(member), _assignment(group, member))
                shard.restart_session(group, member, member.session_timeout_ms, later)

    shard.writes.submit([group_record(group, assignments)], now, on_done)


def _assignment(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


# Heartbeat ------------------------------------------------------------------------------------


def heartbeat(shard: Shard, pending: object, request: HeartbeatRequest, now: Now) -> None:
    consumer_group = shard.consumer_groups.get(request.group_id)
    if consumer_group is not None:
        from kraftlog.groups.consumer import classic_members

        classic_members.heartbeat(shard, pending, consumer_group, request, now)
        return
    group = shard.groups.get(request.group_id)
    if group is None:
        code = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    elif group.state == GroupState.DEAD:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        code = group.membership_error(request.member_id, request.group_instance_id)
        if not code and request.generation_id != group.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code:
            member = group.members[request.member_id]
            shard.restart_session(group, member, member.session_timeout_ms, now)
            if group.state == GroupState.PREPARING:
                code = ErrorCode.REBALANCE_IN_PROGRESS
    shard.respond(pending, HeartbeatResponse(error_code=code))


# LeaveGroup -----------------------------------------------------------------------------------


def leave(
    shard: Shard, pending: object, context: RequestContext, request: LeaveGroupRequest, now: Now
) -> None:
    has_several = context.version >= SEVERAL_SINCE
    leaving = request.members if has_several else (MemberIdentity(member_id=request.member_id),)
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        shard.respond(pending, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    consumer_group = shard.consumer_groups.get(request.group_id)
    if consumer_group is not None:
        from kraftlog.groups.consumer.leaving import leave as leave_consumer_group

        def response_of(results: list[MemberResponse]) -> LeaveGroupResponse:
            return _leave_response(results, has_several)

        leave_consumer_group(shard, pending, consumer_group, leaving, response_of, now)
        return
    if group is not None and group.state == GroupState.DEAD:
        shard.respond(pending, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    results = [
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=_leave_one(shard, group, each),
        )
        for each in leaving
    ]
    shard.respond(pending, _leave_response(results, has_several))
    if group is not None and any(not each.error_code for each in results):
        rebalance.members_left(shard, group, now)


def _leave_response(results: Sequence[MemberResponse], has_several: bool) -> LeaveGroupResponse:
    """Before SEVERAL_SINCE, the response has the error code of the only member at the top level."""
    if has_several:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=tuple(results))
    return LeaveGroupResponse(error_code=results[0].error_code)


def _leave_one(shard: Shard, group: Group | None, leaving: MemberIdentity) -> int:
    """Remove a member, or the id of one that has not joined yet; return the error code."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member_id: str | None = leaving.member_id
    if not member_id:
        # An administrator sends an instance id without a member id.
        member_id = group.static_members.get(leaving.group_instance_id or "")
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending_joins:
        code = group.membership_error(member_id, leaving.group_instance_id)
        if code:
            return code
    shard.remove_member(group, member_id)
    return ErrorCode.NONE
