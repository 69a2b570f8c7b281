"""CreateDelegationToken: create a token that authenticates as a principal."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class CreatableRenewers(Message):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message, versions=(1, 3), flexible=2):
    owner_principal_type: str | None = string(since=3, nullable=True, default="")
    owner_principal_name: str | None = string(since=3, nullable=True, default="")
    renewers: Sequence[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, versions=(1, 3), flexible=2):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3, default="")
    token_requester_principal_name: str = string(since=3, default="")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32(default=0)
