"""ExpireDelegationToken: change a token's expiry time."""

from __future__ import annotations

from kraftlog.wire.schema import Message, binary, int16, int32, int64


class ExpireDelegationTokenRequest(Message, versions=(1, 2), flexible=2):
    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, versions=(1, 2), flexible=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
