"""JoinGroup: join or rejoin a group; the response waits for the rebalance."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, boolean, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class JoinGroupRequestProtocol(Message):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Message, versions=(0, 9), flexible=6):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    protocol_type: str = string()
    protocols: Sequence[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable=True, default=None, ignorable=True)


class JoinGroupResponseMember(Message):
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    metadata: bytes = binary()


class JoinGroupResponse(Message, versions=(0, 9), flexible=6):
    throttle_time_ms: int = int32(since=2, default=0, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(nullable=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9, default=False)
    member_id: str = string()
    members: Sequence[JoinGroupResponseMember] = array(JoinGroupResponseMember)
