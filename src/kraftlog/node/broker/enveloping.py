"""Envelopes: what a client asks for, with who it is, on the way to a controller on another node.

Only requests whose decisions depend on who asks travel so (decision 0008); Kafka's brokers forward
all of them in Envelopes.
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

    from kraftlog.node.controller_request import ForwardedClient, OnDone
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: The encoded version of the principal.
PRINCIPAL_VERSION = b"\0\0"
CORRELATION_ID_SIZE = 4


def envelope_of(
    api_key: int, version: int, message: Message, client: ForwardedClient
) -> EnvelopeRequest:
    kind, _, name = client.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=client.is_by_token)
    # A host that is no address, as in a simulation, is nowhere.
    bits, number = address_number(client.host.strip("[]")) or (32, 0)
    return EnvelopeRequest(
        request_data=b"".join(request_frame(APIS[api_key], version, 0, None, message))[
            LENGTH_SIZE:
        ],
        request_principal=PRINCIPAL_VERSION + bytes(codec.encode(principal, 0)),
        client_host_address=number.to_bytes(bits // 8, "big"),
    )


def opening(api_key: int, version: int, message: Message, on_done: OnDone) -> OnDone:
    """A callback for the Envelope's response, which calls back with what is in it."""

    def opened(response: Any, now: Now) -> None:
        on_done(None if response is None else _inside(api_key, version, message, response), now)

    return opened


def _inside(api_key: int, version: int, message: Message, response: Any) -> Any:
    """The response to the request; None if the node is not the active controller."""
    code = response.error_code
    if code == ErrorCode.NOT_CONTROLLER:
        return None
    if code == ErrorCode.NONE:
        api, data = APIS[api_key], bytes(response.response_data or b"")
        body = CORRELATION_ID_SIZE + api.response_header_version(version)
        try:
            return codec.decode(api.response(), version, data, body)
        except ProtocolError:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
    elif code != ErrorCode.UNSUPPORTED_VERSION:
        code = ErrorCode.UNKNOWN_SERVER_ERROR  # it concerns this broker, not its client
    return error_response(api_key, version, message, code)
