"""PushTelemetry: a client pushes its metrics."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, binary, boolean, int8, int16, int32, uuid

if TYPE_CHECKING:
    from kraftlog.types import Uuid


class PushTelemetryRequest(Message, versions=(0, 0), flexible=0):
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = binary()


class PushTelemetryResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
