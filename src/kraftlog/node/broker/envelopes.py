"""Envelopes: a client's request with its principal, for a controller that has to know it.

Only requests whose decisions depend on the client travel so (decision 0008): about delegation
tokens, and what a quota of the client limits. Kafka's brokers forward all of them in Envelopes.
"""

from __future__ import annotations

from kraftlog.authorization.hosts import address_number
from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.node.error_responses import error_response
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS
from kraftlog.wire.frames import LENGTH_SIZE, request_frame
from kraftlog.wire.messages.envelope import EnvelopeRequest
from kraftlog.wire.messages.principal import DefaultPrincipalData

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.controller_request import ControllerRequest, ForwardedClient
    from kraftlog.wire.messages.envelope import EnvelopeResponse

#: Version 0 of the encoded principal.
_PRINCIPAL_VERSION = b"\0\0"
#: The address of a client without one.
_NO_ADDRESS = bytes(4)
_CORRELATION_SIZE = 4


def envelope_of(request: ControllerRequest, client: ForwardedClient) -> EnvelopeRequest:
    pieces = request_frame(
        APIS[request.api_key], request.version, 0, client.client_id, request.message
    )
    kind, _, name = client.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=client.is_by_token)
    return EnvelopeRequest(
        request_data=b"".join(pieces)[LENGTH_SIZE:],
        request_principal=_PRINCIPAL_VERSION + codec.encode(principal, 0),
        client_host_address=_address(client.host),
    )


def _address(host: str) -> bytes:
    number = address_number(host.strip("[]"))
    return _NO_ADDRESS if number is None else number[1].to_bytes(number[0] // 8, "big")


def response_in(envelope: EnvelopeResponse, request: ControllerRequest) -> Any:
    """The response to the embedded request; None if another node is the controller."""
    if envelope.error_code == ErrorCode.NOT_CONTROLLER:
        return None
    code, data = envelope.error_code, envelope.response_data or b""
    api, version = APIS[request.api_key], request.version
    if code == ErrorCode.NONE:
        start = _CORRELATION_SIZE + api.response_header_version(version)
        try:
            return codec.decode(api.response(), version, data, start)
        except ProtocolError:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
    elif code != ErrorCode.UNSUPPORTED_VERSION:
        # As in Kafka: why the controller refuses the broker is not for the client.
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return error_response(request.api_key, version, request.message, code)
