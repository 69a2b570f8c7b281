"""AlterUserScramCredentials: set and remove SCRAM credentials."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScramCredentialDeletion(Message):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = binary()
    salted_password: bytes = binary()


class AlterUserScramCredentialsRequest(Message, versions=(0, 0), flexible=0):
    deletions: Sequence[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: Sequence[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class AlterUserScramCredentialsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
