"""DescribeGroups: state and members of classic groups."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, boolean, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeGroupsRequest(Message, versions=(0, 6), flexible=5):
    groups: Sequence[str] = array("string")
    include_authorized_operations: bool = boolean(since=3, default=False)


class DescribedGroupMember(Message):
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable=True, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Message):
    error_code: int = int16()
    error_message: str | None = string(since=6, nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


class DescribeGroupsResponse(Message, versions=(0, 6), flexible=5):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
