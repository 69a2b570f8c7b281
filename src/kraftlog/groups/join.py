"""JoinGroup: admits members and responds when the generation is complete.

From version 4 on, a new member first receives an id and then joins with it. A static member, one
with an instance id, rejoins under a new id, without a rebalance if possible.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups import members, rebalance
from kraftlog.groups.group import Group
from kraftlog.groups.member import Member, protocols_of, rebalance_timeout_of
from kraftlog.groups.pending_writes import coordinator_error
from kraftlog.groups.records import group_record, new_group_record
from kraftlog.groups.states import GroupState
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kraftlog.wire.primitives import LONGEST_STRING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.messages import RequestContext
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now
    from kraftlog.wire.messages.join_group import JoinGroupRequest

#: The member id in a request of a new member, and in an error response that names no member.
NO_MEMBER_ID = ""
#: From this version on, a new member receives its id before it joins.
ID_REQUIRED_SINCE = 4
#: From this version on, a response can tell a static leader that rejoins to assign nothing.
SKIP_ASSIGNMENT_SINCE = 9


def join(
    shard: Shard, pending: object, context: RequestContext, request: JoinGroupRequest, now: Now
) -> None:
    config = shard.config
    member_id = request.member_id
    if not request.group_id:
        return shard.respond(pending, error_response(member_id, ErrorCode.INVALID_GROUP_ID))
    if not (
        config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms
    ):
        return shard.respond(pending, error_response(member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
    consumer_group = shard.consumer_groups.get(request.group_id)
    if consumer_group is not None and consumer_group.members:
        from kraftlog.groups.consumer import classic_members

        return classic_members.join(shard, pending, context, consumer_group, request, now)
    return _join_classic_group(shard, pending, context, request, now)


def _join_classic_group(
    shard: Shard, pending: object, context: RequestContext, request: JoinGroupRequest, now: Now
) -> None:
    member_id = request.member_id
    group = shard.groups.get(request.group_id)
    consumer_group = shard.consumer_groups.get(request.group_id)
    tombstones: list[GroupRecord] = []
    if consumer_group is not None:
        code = _obstacle_to_replacing(shard, request, now)
        if code:
            return shard.respond(pending, error_response(member_id, code))
        tombstones = begin_replacing(shard, consumer_group)
        group = None
    is_new = group is None
    if group is None:
        if member_id != NO_MEMBER_ID:
            return shard.respond(pending, error_response(member_id, ErrorCode.UNKNOWN_MEMBER_ID))
        group = shard.new_group(request.group_id, now)
    code = _join_error(shard, group, request)
    if code == ErrorCode.GROUP_MAX_SIZE_REACHED:
        shard.remove_member(group, member_id)
        shard.respond(pending, error_response(NO_MEMBER_ID, code))
        rebalance.maybe_complete(shard, group, now)
    elif code:
        shard.respond(pending, error_response(member_id, code))
        shard.drop_if_unused(group)
    elif member_id != NO_MEMBER_ID:
        _rejoin(shard, pending, context, group, request, now)
    elif request.group_instance_id is not None:
        _join_static(shard, pending, context, group, request, now)
    else:
        _join_new(shard, pending, context, group, request, now)
    if is_new:
        _write_new_group(shard, group, tombstones, now)
    return None


def error_response(member_id: str, code: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=member_id, members=()
    )


def notify_generation(shard: Shard, group: Group, now: Now) -> None:
    """Respond to all members with the generation, and to the leader with the members."""
    for member in group.members.values():
        shard.respond(group.take_joining(member), _join_response(group, member))
        shard.restart_session(group, member, member.session_timeout_ms, now)
        member.is_new = False
        group.pending_syncs[member.member_id] = None


def _join_response(group: Group, member: Member) -> JoinGroupResponse:
    leads = group.leader == member.member_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=group.leader or "",
        member_id=member.member_id,
        members=_all_members(group) if leads else (),
    )


def _all_members(group: Group) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol),
            )
            for member in group.members.values()
        ]
    )


def _obstacle_to_replacing(shard: Shard, request: JoinGroupRequest, now: Now) -> int:
    """The error code for a member that cannot replace an empty consumer group, or NONE."""
    if request.member_id != NO_MEMBER_ID:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _join_error(shard, Group(request.group_id, now), request)


def begin_replacing(shard: Shard, consumer_group: ConsumerGroup) -> list[GroupRecord]:
    """Remove an empty consumer group, whose place a classic one takes; return its tombstones."""
    from kraftlog.groups.consumer.records import removed_group

    tombstones = removed_group(consumer_group)
    for record in tombstones:
        shard.apply_to_consumer_group(consumer_group.group_id, record)
    return tombstones


def _join_error(shard: Shard, group: Group, request: JoinGroupRequest) -> int:
    """The error code for a member that may not join, or NONE."""
    if group.state == GroupState.DEAD:
        # The group is being deleted: the client retries with a new group or another coordinator.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _has_room(group, request.member_id, shard.config.max_size):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(request.protocol_type, protocols_of(request)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.state == GroupState.PREPARING:
        # Only joined members count, so that a lowered limit rejects the members that join last.
        return (member is not None and member.joining is not None) or group.joining_count < max_size
    return member is not None or len(group.members) < max_size


def _write_new_group(
    shard: Shard, group: Group, tombstones: Sequence[GroupRecord], now: Now
) -> None:
    """Write a new group to the log, so that a later coordinator knows it.

    `tombstones`: of the consumer group that it replaces, if any.
    """
    group_id = group.group_id
    if shard.groups.get(group_id) is not group:
        return

    def undo(code: int, later: Now) -> None:
        if group_id not in shard.durable.groups:
            shard.fail_pending_requests(group, coordinator_error(code))
            shard.drop(group)
        if tombstones:
            shard.rebuild_consumer_group(group_id, later)

    group_ids = (group_id,) if tombstones else ()
    shard.writes.submit([*tombstones, new_group_record(group)], now, undo=undo, group_ids=group_ids)


# New members ----------------------------------------------------------------------------------


def _join_new(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: Group,
    request: JoinGroupRequest,
    now: Now,
) -> None:
    member_id = shard.new_member_id(context.client_id)
    if not is_writable(member_id):
        _refuse_unwritable_id(shard, pending, group)
        return
    if context.version < ID_REQUIRED_SINCE:
        _add(shard, pending, context, group, request, member_id, now)
        return
    timer = Timer(lambda later: rebalance.pending_join_timed_out(shard, group, member_id, later))
    group.pending_joins[member_id] = timer
    shard.timers.set(timer, now.monotonic_ms + request.session_timeout_ms)
    shard.respond(pending, error_response(member_id, ErrorCode.MEMBER_ID_REQUIRED))


def is_writable(member_id: str) -> bool:
    """Whether a generated id, a UUID after a client's string, fits into responses and records."""
    return len(member_id) <= LONGEST_STRING and len(member_id.encode()) <= LONGEST_STRING


def _refuse_unwritable_id(shard: Shard, pending: object, group: Group) -> None:
    shard.respond(pending, error_response(NO_MEMBER_ID, ErrorCode.INVALID_REQUEST))
    shard.drop_if_unused(group)


def _add(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: Group,
    request: JoinGroupRequest,
    member_id: str,
    now: Now,
) -> None:
    member = Member(
        member_id,
        request.group_instance_id,
        context.client_id,
        context.client_host,
        rebalance_timeout_of(request),
        request.session_timeout_ms,
        protocols_of(request),
    )
    member.is_new = True
    timer = group.pending_joins.get(member_id)
    if timer is not None:
        shard.timers.cancel(timer)
    group.add(member, request.protocol_type, pending)
    group.member_added = True
    # A new member sends no heartbeats before the response: this timeout removes it if it vanishes.
    shard.restart_session(group, member, shard.config.new_member_join_timeout_ms, now)
    rebalance.prepare_or_complete(shard, group, now)


# Known members -------------------------------------------------------------------------------


def _rejoin(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: Group,
    request: JoinGroupRequest,
    now: Now,
) -> None:
    member_id = request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is not None:
            # Static members are never asked to rejoin with an id.
            shard.respond(pending, error_response(member_id, ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            _add(shard, pending, context, group, request, member_id, now)
        return
    code = group.membership_error(member_id, request.group_instance_id)
    if code or group.state == GroupState.EMPTY:
        shard.respond(pending, error_response(member_id, code or ErrorCode.UNKNOWN_MEMBER_ID))
        return
    member = group.members[member_id]
    is_unchanged = member.protocols == protocols_of(request)
    leads = group.leader == member_id
    if group.state == GroupState.COMPLETING and is_unchanged:
        # The member may have missed the response, so the response is repeated.
        shard.respond(pending, _join_response(group, member))
    elif group.state == GroupState.STABLE and is_unchanged and not leads:
        shard.respond(pending, _join_response(group, member))
    else:
        # This includes an unchanged leader of a stable group: it rejoins to trigger a new
        # assignment, for reasons outside of the metadata.
        _update(shard, pending, group, member, request)
        rebalance.prepare_or_complete(shard, group, now)


def _update(
    shard: Shard, pending: object, group: Group, member: Member, request: JoinGroupRequest
) -> None:
    group.update(
        member, protocols_of(request), rebalance_timeout_of(request), request.session_timeout_ms
    )
    earlier = group.set_joining(member, pending)
    shard.respond(earlier, error_response(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


# Static members -------------------------------------------------------------------------------


def _join_static(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: Group,
    request: JoinGroupRequest,
    now: Now,
) -> None:
    instance_id = request.group_instance_id
    assert instance_id is not None
    new_id = shard.new_member_id(instance_id)
    if not is_writable(new_id):
        _refuse_unwritable_id(shard, pending, group)
        return
    old_id = group.static_members.get(instance_id)
    if old_id is None:
        _add(shard, pending, context, group, request, new_id, now)
        return
    old_leader = group.leader
    member = group.members[old_id]
    _replace_member_id(shard, group, member, new_id)
    _update(shard, pending, group, member, request)
    shard.restart_session(group, member, member.session_timeout_ms, now)
    if group.state == GroupState.STABLE and group.select_protocol() == group.protocol:
        _rejoin_without_rebalance(shard, pending, context, group, member, old_leader, now)
    else:
        # The leader may be assigning partitions to the old id, so the rebalance starts again.
        rebalance.prepare_or_complete(shard, group, now)


def _replace_member_id(shard: Shard, group: Group, member: Member, new_id: str) -> None:
    """Give a static member its new id, and fence the pending requests of the old one."""
    code = ErrorCode.FENCED_INSTANCE_ID
    shard.respond(group.take_joining(member), error_response(member.member_id, code))
    shard.respond(members.take_syncing(member), members.no_assignment(code))
    group.rename(member, new_id)
    member.is_new = False


def _rejoin_without_rebalance(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: Group,
    member: Member,
    old_leader: str | None,
    now: Now,
) -> None:
    """Write the new id without a rebalance; the assignment stays."""
    new_id = member.member_id
    instance_id = member.instance_id
    assert instance_id is not None

    def on_done(code: int, later: Now) -> None:
        if member.joining is not pending:
            return  # a later request has replaced this one, or a rebalance has responded to it
        group.take_joining(member)
        if code:
            refused = error_response(NO_MEMBER_ID, coordinator_error(code))
            shard.respond(pending, refused.replace(generation_id=group.generation))
            return
        shard.restart_session(group, member, member.session_timeout_ms, later)
        response = _join_response(group, member)
        if context.version >= SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = group.leader == new_id
        else:
            # Named as the leader, the member would assign partitions, but no member awaits that.
            response.leader = old_leader or ""
            response.members = ()
        shard.respond(pending, response)

    def undo(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        if group.static_members.get(instance_id) == new_id and group.state == GroupState.STABLE:
            _restore_recorded_member(shard, group, member, later)

    record = group_record(
        group, {each.member_id: each.assignment for each in group.members.values()}
    )
    shard.writes.submit([record], now, on_done, undo)


def _restore_recorded_member(shard: Shard, group: Group, member: Member, now: Now) -> None:
    """Restore the member to its state in the log, because the new id was not written."""
    value = shard.durable.groups[group.group_id]
    recorded = [each for each in value.members if each.group_instance_id == member.instance_id]
    if recorded:
        [former] = recorded
        group.rename(member, former.member_id)
        group.update(
            member,
            ((group.protocol or "", former.subscription),),
            former.rebalance_timeout,
            former.session_timeout,
        )
        shard.restart_session(group, member, member.session_timeout_ms, now)
