"""GetTelemetrySubscriptions: which metrics a client should push."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class GetTelemetrySubscriptionsRequest(Message, versions=(0, 0), flexible=0):
    client_instance_id: Uuid = uuid()


class GetTelemetrySubscriptionsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: Sequence[int] = array("int8")
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: Sequence[str] = array("string")
