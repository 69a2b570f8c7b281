"""UnregisterController: remove a controller's registration."""

from __future__ import annotations

from kraftlog.wire.schema import Message, int16, int32, string


class UnregisterControllerRequest(Message, versions=(0, 0), flexible=0):
    controller_id: int = int32()


class UnregisterControllerResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
