"""Heartbeat: keeps a member alive; the response tells it when to rejoin."""

from __future__ import annotations

from kraftlog.wire.schema import Message, int16, int32, string


class HeartbeatRequest(Message, versions=(0, 4), flexible=4):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


class HeartbeatResponse(Message, versions=(0, 4), flexible=4):
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
