"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the end of tokens.

All levels of metadata.version that nodes support have their records. Those who ask are known by
`context.principal`: whether they may ask at all is decided before.
"""

from __future__ import annotations

from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode
from kraftlog.sasl.delegation_tokens import (
    MAX_NAMES_BYTES,
    MAX_RENEWERS,
    USER,
    end_of,
    hmac_of,
    is_expired,
    owner_of,
)
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from kraftlog.wire.messages.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.controller.context import Context
    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.messages.create_delegation_token import CreateDelegationTokenRequest
    from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
    from kraftlog.wire.schema import Message

#: The end of time, as a timestamp.
FOREVER_MS = 2**63 - 1


def decide_create_token(
    state: ControllerState,  # noqa: ARG001 - every decision is called alike
    request: CreateDelegationTokenRequest,
    context: Context,
) -> Decision:
    requester = context.principal
    owner = owner_of(request, requester)
    refusal = _refusal(request, context)
    if refusal:
        return Decision([], without_token(refusal, owner, requester))
    config = context.config.tokens
    assert config is not None
    now_ms = context.now.wall_ms
    lifetime_ms = config.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _after(now_ms, lifetime_ms)
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=[f"{it.principal_type}:{it.principal_name}" for it in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, _after(now_ms, config.expiry_time_ms)),
        token_id=uuid_text(context.new_id()),
    )
    response = without_token(ErrorCode.NONE, owner, requester)
    response.issue_timestamp_ms = record.issue_timestamp
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = record.max_timestamp
    response.token_id = record.token_id
    response.hmac = hmac_of(config.secret, record.token_id)
    return Decision([record], response)


def _refusal(request: CreateDelegationTokenRequest, context: Context) -> int:
    """The error code of a token that cannot be created; 0 if it can."""
    if context.config.tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if len(request.renewers) > MAX_RENEWERS:
        return ErrorCode.INVALID_REQUEST
    types = [renewer.principal_type for renewer in request.renewers]
    names = [renewer.principal_name for renewer in request.renewers]
    if request.owner_principal_name:
        # Who logs in with a token is a user: one of another type would become that user.
        types.append(request.owner_principal_type or "")
        names.append(request.owner_principal_name)
    if any(each != USER for each in types):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    if sum(len(name.encode()) for name in names) > MAX_NAMES_BYTES:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def without_token(
    code: int, owner: str, requester: str, timestamp_ms: int = 0
) -> CreateDelegationTokenResponse:
    """A response without a token, or without it yet."""
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=timestamp_ms,
        expiry_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        token_id="",
        hmac=b"",
    )


def decide_renew_token(
    state: ControllerState, request: RenewDelegationTokenRequest, context: Context
) -> Decision:
    token, code = _found(state, request.hmac, context)
    now_ms = context.now.wall_ms
    if token is None:
        return Decision([], _renewed(code, 0))
    if _is_over(token, now_ms):
        return Decision([], _renewed(ErrorCode.DELEGATION_TOKEN_EXPIRED, 0))
    if not _may_renew(token, context.principal):
        return Decision([], _renewed(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0))
    assert context.config.tokens is not None
    period_ms = context.config.tokens.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    record = _with_end(token, _after(now_ms, period_ms))
    return Decision([record], _renewed(ErrorCode.NONE, record.expiration_timestamp))


def _renewed(code: int, expiry_ms: int) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


def decide_expire_token(
    state: ControllerState, request: ExpireDelegationTokenRequest, context: Context
) -> Decision:
    """A negative period ends a token at once, even one that has expired."""
    token, code = _found(state, request.hmac, context)
    now_ms, period_ms = context.now.wall_ms, request.expiry_time_period_ms
    if token is None:
        return Decision([], _expired(code, 0))
    if not _may_renew(token, context.principal):
        return Decision([], _expired(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0))
    if period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Decision([removal], _expired(ErrorCode.NONE, now_ms))
    if _is_over(token, now_ms):
        return Decision([], _expired(ErrorCode.DELEGATION_TOKEN_EXPIRED, 0))
    record = _with_end(token, _after(now_ms, period_ms))
    return Decision([record], _expired(ErrorCode.NONE, record.expiration_timestamp))


def _expired(code: int, expiry_ms: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


def expired_tokens(state: ControllerState, now_ms: int, at_most: int) -> Sequence[Message]:
    """The removal of tokens that are over."""
    records: list[Message] = []
    for token in state.tokens.values():
        if _is_over(token, now_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
            if len(records) == at_most:
                break
    return records


def _found(
    state: ControllerState, token_hmac: bytes, context: Context
) -> tuple[DelegationTokenRecord | None, int]:
    """The token with an HMAC; if there is none, the error code says why."""
    if context.config.tokens is None:
        return None, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    token_id = state.token_ids.get(bytes(token_hmac))
    if token_id is None:
        return None, ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return state.tokens[token_id], ErrorCode.NONE


def _may_renew(token: DelegationTokenRecord, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def _is_over(token: DelegationTokenRecord, now_ms: int) -> bool:
    return is_expired(end_of(token), now_ms)


def _with_end(token: DelegationTokenRecord, end_ms: int) -> DelegationTokenRecord:
    """The token with another end, but never after its longest life."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=min(token.max_timestamp, end_ms),
        token_id=token.token_id,
    )


def _after(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, FOREVER_MS)
