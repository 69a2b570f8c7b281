"""Requests about delegation tokens: who may send them, and who may create a token for whom."""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, ResourceType
from kraftlog.controller.delegation_tokens import without_token
from kraftlog.errors import ErrorCode
from kraftlog.sasl.delegation_tokens import owner_of
from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.access.asked import Asked
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.wire.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )

#: Instead of a timestamp.
NO_TIMESTAMP = -1


def create(asked: Asked) -> bool:
    """Anyone may have a token of their own; one for others needs CREATE_TOKENS on them."""
    owner = owner_of(asked.request, asked.principal)
    if (
        owner == asked.principal
        or not has_proved_identity(asked.node, asked.pending)  # the handler refuses it
        or asked.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return True
    # Only versions that name the requester can name another owner.
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    asked.pending.respond(not_created(code, asked.request, asked.principal))
    return False


def has_proved_identity(node: ServingNode, pending: PendingResponse) -> bool:
    """Whether a client may ask for tokens: not by a token, and not as somebody unknown.

    A broker that forwards a request has looked at the client's listener.
    """
    if pending.is_by_token:
        return False
    if pending.is_forwarded:
        return True
    protocol = node.config.settings.protocols.get(pending.connection.listener_name, "PLAINTEXT")
    if protocol == "SSL":
        return pending.client()[0] != ANONYMOUS
    return protocol != "PLAINTEXT"


def not_created(
    code: int, request: CreateDelegationTokenRequest, requester: str
) -> CreateDelegationTokenResponse:
    return without_token(code, owner_of(request, requester), requester, NO_TIMESTAMP)
