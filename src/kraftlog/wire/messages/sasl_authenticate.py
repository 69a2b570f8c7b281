"""SaslAuthenticate: one step of a SASL exchange."""

from __future__ import annotations

from kraftlog.wire.schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, versions=(0, 2), flexible=2):
    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Message, versions=(0, 2), flexible=2):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64(since=1, default=0, ignorable=True)
