"""LeaveGroup for a consumer group: an administrator removes members."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer import fencing
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.leave_group import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.types import Now
    from kraftlog.wire.messages.leave_group import MemberIdentity


def leave(
    shard: Shard,
    pending: object,
    group: ConsumerGroup,
    leaving: Sequence[MemberIdentity],
    respond_with: Callable[[list[MemberResponse]], LeaveGroupResponse],
    now: Now,
) -> None:
    """Remove all of these members that are in the group, in one batch."""
    removed: dict[str, ConsumerMember] = {}
    results = []
    for each in leaving:
        member, code = _find(group, each)
        if member is not None:
            removed[member.member_id] = member
        results.append(
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
        )
    response = respond_with(results)
    if removed:
        fencing.fence(shard, group, list(removed.values()), now, pending, response, _error_response)
    else:
        shard.respond(pending, response)


def _find(group: ConsumerGroup, leaving: MemberIdentity) -> tuple[ConsumerMember | None, int]:
    """The member, or None and the error code."""
    instance_id = leaving.group_instance_id
    if instance_id is None:
        member = group.members.get(leaving.member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and leaving.member_id not in {"", member.member_id}:
            return None, ErrorCode.FENCED_INSTANCE_ID
    return member, ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID


def _error_response(code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
