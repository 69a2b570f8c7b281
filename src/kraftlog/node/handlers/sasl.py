"""SaslHandshake and SaslAuthenticate of clients that have logged in, or need not.

Those of other clients never reach a handler: see `authentication`.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest

LOGGED_IN = "SaslAuthenticate request received after successful authentication"


def handle(
    node: ServingNode,  # noqa: ARG001 - interface of handlers
    pending: PendingResponse,
    request: SaslHandshakeRequest | SaslAuthenticateRequest,
    now: Now,
) -> None:
    """Begin another login on the same connection, if its session has a limit (KIP-368)."""
    authenticator = getattr(pending.connection, "authenticator", None)
    is_bare = isinstance(request, SaslHandshakeRequest) and pending.version == 0
    if authenticator is not None and authenticator.takes(request) and not is_bare:
        authenticator.renew(pending, request, now)
    elif isinstance(request, SaslHandshakeRequest):
        pending.respond(
            SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
        )
    else:
        pending.respond(
            SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=LOGGED_IN, auth_bytes=b""
            )
        )
