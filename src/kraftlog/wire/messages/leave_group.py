"""LeaveGroup: remove members from a group."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemberIdentity(Message):
    member_id: str = string(since=3, default="")
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    reason: str | None = string(since=5, nullable=True, default=None, ignorable=True)


class LeaveGroupRequest(Message, versions=(0, 5), flexible=4):
    group_id: str = string()
    member_id: str = string(until=2, default="")
    members: Sequence[MemberIdentity] = array(MemberIdentity, since=3, default=())


class MemberResponse(Message):
    member_id: str = string(since=3, default="")
    group_instance_id: str | None = string(since=3, nullable=True, default="")
    error_code: int = int16(since=3, default=0)


class LeaveGroupResponse(Message, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    members: Sequence[MemberResponse] = array(MemberResponse, since=3, default=())
