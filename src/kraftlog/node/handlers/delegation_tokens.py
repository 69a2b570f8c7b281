"""Delegation tokens: the controller creates, renews and ends them; every node describes them.

The order of the checks, and the responses, are those of Kafka's KafkaApis.
"""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, ResourceType
from kraftlog.errors import ErrorCode
from kraftlog.node.access import asked_of
from kraftlog.node.access.tokens import NO_TIMESTAMP, has_proved_identity, not_created
from kraftlog.node.handlers import forwarding
from kraftlog.sasl.delegation_tokens import MAX_RENEWERS, USER, hmac_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.config.delegation_tokens import TokenConfig
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.create_delegation_token import (
        CreatableRenewers,
        CreateDelegationTokenResponse,
    )
    from kraftlog.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from kraftlog.wire.messages.metadata_records import DelegationTokenRecord

#: The first version of responses with the requester of a token beside its owner.
REQUESTER_SINCE = 3
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
#: Costs in microseconds: an owner that is asked for, a token that is looked at or described.
OWNER_COST, TOKEN_COST, DESCRIPTION_COST = 1, 2, 10


def handle(
    node: ServingNode, pending: PendingResponse, request: Any, now: Now
) -> Iterator[int] | None:
    assert pending.api is not None
    key = pending.api.key
    if key == ApiKey.DESCRIBE_DELEGATION_TOKEN:
        return _describe(node, pending, request)
    if key == ApiKey.CREATE_DELEGATION_TOKEN:
        _without_requester(pending)
    code = NOT_ALLOWED
    if has_proved_identity(node, pending):
        code = ErrorCode.NONE
        if key == ApiKey.CREATE_DELEGATION_TOKEN:
            code = _refusal_of(request.renewers)
    if code == ErrorCode.NONE:
        forwarding.handle(node, pending, request, now)
    else:
        _refuse(pending, request, code)
    return None


def _without_requester(pending: PendingResponse) -> None:
    """Leave the requester out of responses in versions that do not have it."""
    if pending.version < REQUESTER_SINCE:
        pending.complete = _forget_requester


def _forget_requester(response: CreateDelegationTokenResponse) -> None:
    response.token_requester_principal_type = response.token_requester_principal_name = ""


def _refusal_of(renewers: Sequence[CreatableRenewers]) -> int:
    """The error code of renewers whom the controller need not see; 0 if there are none."""
    if len(renewers) > MAX_RENEWERS:
        return ErrorCode.INVALID_REQUEST
    if any(renewer.principal_type != USER for renewer in renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def _refuse(pending: PendingResponse, request: Any, code: int) -> None:
    assert pending.api is not None
    if pending.api.key == ApiKey.CREATE_DELEGATION_TOKEN:
        pending.respond(not_created(code, request, pending.client()[0]))
        return
    response_type: Any = pending.api.response()
    pending.respond(response_type(error_code=code, expiry_timestamp_ms=NO_TIMESTAMP))


# Describing --------------------------------------------------------------------------------------


def _describe(
    node: ServingNode, pending: PendingResponse, request: DescribeDelegationTokenRequest
) -> Iterator[int] | None:
    config = node.delegation_tokens
    code = ErrorCode.NONE
    if not has_proved_identity(node, pending):
        code = NOT_ALLOWED
    elif config is None:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if config is None or code != ErrorCode.NONE:
        pending.respond(DescribeDelegationTokenResponse(error_code=code, tokens=()))
        return None
    return _describe_in_steps(node, pending, request, config)


def _describe_in_steps(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeDelegationTokenRequest,
    config: TokenConfig,
) -> Iterator[int]:
    """The tokens of the given owners, or of all, that the client may see."""
    owners: set[str] | None = None
    if request.owners is not None:
        owners = set()
        for each in request.owners:
            owners.add(f"{each.principal_type}:{each.principal_name}")
            yield OWNER_COST
    may_see = _visible_to(node, pending, request, owners)
    described = []
    for token in list(node.image.tokens.values()):
        yield TOKEN_COST
        if may_see(token):
            described.append(_description(token, config.secret, pending.version))
            yield DESCRIPTION_COST
    response = DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=described)
    yield from pending.respond_in_steps(response, len(described))


def _visible_to(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeDelegationTokenRequest,
    owners: set[str] | None,
) -> Callable[[DelegationTokenRecord], bool]:
    client = pending.client()[0]
    asked = asked_of(node, pending, request)

    def may_see(token: DelegationTokenRecord) -> bool:
        concerned = {token.owner, *token.renewers}
        if owners is not None and owners.isdisjoint(concerned):
            return False
        return (
            client in concerned
            or asked is None
            or asked.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or asked.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )

    return may_see


def _description(
    token: DelegationTokenRecord, secret: str, version: int
) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester = token.requester if version >= REQUESTER_SINCE else ""
    requester_type, _, requester_name = requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac_of(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
