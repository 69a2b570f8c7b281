"""Delegation tokens (KIP-48): a token's HMAC, and the credential of SCRAM that follows from it.

A token's id is public, its HMAC is the password of those who log in with it. The metadata log has
only ids, so that it takes the secret key of the cluster to know a password.
"""

from __future__ import annotations

from kraftlog.sasl.scram import MIN_ITERATIONS, keys_of, salted_password
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.sasl.scram import ScramKeys

    class NamesOwner(Protocol):
        """A request that may name the owner of a new token."""

        owner_principal_type: str | None
        owner_principal_name: str | None

    class Ends(Protocol):
        """A token's record, by when it ends."""

        expiration_timestamp: int
        max_timestamp: int


#: The extension of SCRAM, and the option of its login module, by which a client says that the user
#: is a token's id, and the password its HMAC.
TOKEN_AUTH = "tokenauth"  # noqa: S105 - no password
#: The most renewers of a token, and bytes of their names and the owner's; Kafka has no limit.
MAX_RENEWERS, MAX_NAMES_BYTES = 1000, 32_000
#: The type of the principals that own, request and renew tokens.
USER = "User"


class TokenCredential(Value):
    """What logs in as the owner of a token, and until when."""

    #: The owner's name.
    user: str
    keys: ScramKeys
    expires_ms: int

    def __repr__(self) -> str:
        return f"TokenCredential({self.user})"


def hmac_of(secret: str, token_id: str) -> bytes:
    import hmac

    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> str:
    """The HMAC as Kafka's tools print it, and as clients take it for a password."""
    from base64 import b64encode

    return b64encode(token_hmac).decode()


def token_keys(mechanism: str, secret: str, token_id: str, salt: bytes) -> ScramKeys:
    """The credential of a token; it takes milliseconds."""
    password = password_of(hmac_of(secret, token_id))
    salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
    return keys_of(mechanism, salted, salt, MIN_ITERATIONS)


def owner_of(request: NamesOwner, requester: str) -> str:
    """The principal that owns a new token: the requester, unless the request names another."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def user_of(principal: str) -> str | None:
    """The name of a principal that is a user; None for one of another type."""
    kind, _, name = principal.partition(":")
    return name if kind == USER else None


def end_of(token: Ends) -> int:
    """When a token expires, in milliseconds."""
    return min(token.expiration_timestamp, token.max_timestamp)


def is_expired(end_ms: int, now_ms: int) -> bool:
    """Whether a token is over: as for Kafka, not yet in the millisecond of its end."""
    return end_ms < now_ms
