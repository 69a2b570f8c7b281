"""Creates, renews, ends and describes delegation tokens."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.sasl.delegation_tokens import password_of
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import create_delegation_token as create
from kraftlog.wire.messages import describe_delegation_token as describe
from kraftlog.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kraftlog.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.client.client import Client

#: What the error codes mean; responses have no messages.
_REASONS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "the brokers or the controllers have no delegation.token.secret.key"
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "no token has this HMAC",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "only the owner of a token and its renewers may renew or expire it"
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "log in by a listener with SASL, or with a certificate, and not by a token"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "a token for another user needs CREATE_TOKENS on this user"
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "it can neither be renewed nor live longer",
}


class DelegationToken(Value):
    """A token, and when it was issued, expires, and expires whatever happens."""

    token_id: str
    #: In base 64: the password of those who log in by the token.
    hmac: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id}, owner={self.owner})"


def create_token(
    client: Client, *, owner: str = "", renewers: Iterable[str] = (), max_lifetime_ms: int = -1
) -> DelegationToken:
    """Create a token, for this user unless another owner is given; -1: as long as may be."""
    owner_type, _, owner_name = owner.partition(":")
    named = tuple(renewers)
    request = create.CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            create.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in named)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    response = client.request("CreateDelegationToken", None, request)
    assert isinstance(response, create.CreateDelegationTokenResponse)
    _check(response.error_code)
    owned = f"{response.principal_type}:{response.principal_name}"
    return DelegationToken(
        response.token_id,
        password_of(response.hmac),
        owned,
        _requester(response) or owned,
        named,
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def renew_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Have a token live on from now; return when it expires."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = client.request("RenewDelegationToken", None, request)
    assert isinstance(response, RenewDelegationTokenResponse)
    _check(response.error_code)
    return response.expiry_timestamp_ms


def expire_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Have a token end after a time, or at once (-1); return when it does."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = client.request("ExpireDelegationToken", None, request)
    assert isinstance(response, ExpireDelegationTokenResponse)
    _check(response.error_code)
    return response.expiry_timestamp_ms


def describe_tokens(client: Client, owners: Iterable[str] | None = None) -> list[DelegationToken]:
    """The tokens that these own or may renew, or all, as far as the user may see them."""
    asked = None
    if owners is not None:
        asked = [
            describe.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in owners)
        ]
    request = describe.DescribeDelegationTokenRequest(owners=asked)
    response = client.request("DescribeDelegationToken", None, request)
    assert isinstance(response, describe.DescribeDelegationTokenResponse)
    _check(response.error_code)
    return [
        DelegationToken(
            each.token_id,
            password_of(each.hmac),
            owner := f"{each.principal_type}:{each.principal_name}",
            _requester(each) or owner,
            tuple(f"{it.principal_type}:{it.principal_name}" for it in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in response.tokens
    ]


def _requester(
    token: create.CreateDelegationTokenResponse | describe.DescribedDelegationToken,
) -> str:
    """Who asked for a token; empty if the response's version does not say it."""
    if not token.token_requester_principal_name:
        return ""
    return f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"


def _check(code: int) -> None:
    if code:
        raise RefusedError(
            code, api="delegation tokens", broker="the controller", message=_REASONS.get(code)
        )
