"""DescribeUserScramCredentials: which SCRAM mechanisms users have."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class UserName(Message):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, versions=(0, 0), flexible=0):
    users: Sequence[UserName] | None = array(UserName, nullable=True)


class CredentialInfo(Message):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    credential_infos: Sequence[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    results: Sequence[DescribeUserScramCredentialsResult] = array(
        DescribeUserScramCredentialsResult
    )
