"""DescribeUserScramCredentials: who can log in with SCRAM, but nothing of their keys."""

from __future__ import annotations

from collections import Counter

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import describe_user_scram_credentials as scram

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now


def handle(node: ServingNode, pending: PendingResponse, request: Any, now: Now) -> None:  # noqa: ARG001 - interface of handlers
    pending.respond(_described(node.image, request))


def _described(
    image: Image, request: scram.DescribeUserScramCredentialsRequest
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
