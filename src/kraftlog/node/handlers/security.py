"""Delegation tokens are refused, as there are none; SCRAM credentials are described.

Clients get the error codes of a Kafka broker without delegation tokens.
"""

from __future__ import annotations

from collections import Counter

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import describe_user_scram_credentials as scram
from kraftlog.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from kraftlog.wire.messages.describe_delegation_token import DescribeDelegationTokenResponse
from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The error of every token request, on any listener: there are no tokens.
NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
#: In the response instead of the client's own principal, as no token is created for it.
PRINCIPAL_TYPE, PRINCIPAL_NAME = "User", "ANONYMOUS"
#: Instead of a timestamp.
NO_TIMESTAMP = -1


def handle(node: ServingNode, pending: PendingResponse, request: Any, now: Now) -> None:  # noqa: ARG001 - interface of handlers
    assert pending.api is not None
    pending.respond(_RESPONSES[pending.api.key](node.image, request, pending.version))


# Delegation tokens -------------------------------------------------------------------------------

#: The first version with the requester of a token beside its owner.
REQUESTER_SINCE = 3


def _create_token(_: Image, __: Any, version: int) -> CreateDelegationTokenResponse:
    has_requester = version >= REQUESTER_SINCE
    return CreateDelegationTokenResponse(
        error_code=NO_TOKENS,
        principal_type=PRINCIPAL_TYPE,
        principal_name=PRINCIPAL_NAME,
        token_requester_principal_type=PRINCIPAL_TYPE if has_requester else "",
        token_requester_principal_name=PRINCIPAL_NAME if has_requester else "",
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )


def _renew_token(_: Image, __: Any, ___: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=NO_TOKENS, expiry_timestamp_ms=NO_TIMESTAMP)


def _expire_token(_: Image, __: Any, ___: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=NO_TOKENS, expiry_timestamp_ms=NO_TIMESTAMP)


def _describe_tokens(_: Image, __: Any, ___: int) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=NO_TOKENS, tokens=())


# SCRAM -------------------------------------------------------------------------------------------


def _describe_scram(
    image: Image, request: scram.DescribeUserScramCredentialsRequest, _: int
) -> scram.DescribeUserScramCredentialsResponse:
    """The credentials of the requested users, or of all."""
    credentials: dict[str, list[scram.CredentialInfo]] = {}
    for (mechanism, user), credential in sorted(image.scram.items()):
        info = scram.CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        credentials.setdefault(user, []).append(info)
    counts = Counter(user.name for user in request.users or ()) or dict.fromkeys(credentials, 1)
    return scram.DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        results=[_credentials_of(user, count, credentials) for user, count in counts.items()],
    )


def _credentials_of(
    user: str, count: int, credentials: dict[str, list[scram.CredentialInfo]]
) -> scram.DescribeUserScramCredentialsResult:
    """The credentials of a user whom the request names `count` times."""
    code, why = ErrorCode.NONE, ""
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        why = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif user not in credentials:
        code = ErrorCode.RESOURCE_NOT_FOUND
        why = f"Attempt to describe a user credential that does not exist: {user}"
    return scram.DescribeUserScramCredentialsResult(
        user=user,
        error_code=code,
        error_message=why,
        credential_infos=() if code else credentials[user],
    )


_RESPONSES: dict[int, Callable[[Image, Any, int], Any]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe_tokens,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_scram,
}
