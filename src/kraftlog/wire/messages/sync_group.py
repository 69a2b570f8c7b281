"""SyncGroup: the leader sends all assignments, and each member receives its own."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class SyncGroupRequestAssignment(Message):
    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Message, versions=(0, 5), flexible=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    protocol_type: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    assignment: bytes = binary()
