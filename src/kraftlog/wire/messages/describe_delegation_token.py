"""DescribeDelegationToken: the tokens of given owners."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeDelegationTokenOwner(Message):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Message, versions=(1, 3), flexible=2):
    owners: Sequence[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable=True
    )


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Message):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3, default="")
    token_requester_principal_name: str = string(since=3, default="")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    renewers: Sequence[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Message, versions=(1, 3), flexible=2):
    error_code: int = int16()
    tokens: Sequence[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32(default=0)
