"""Envelopes: what a broker tells a controller of a client, and what it makes of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.broker.enveloping import envelope_of, opening
from kraftlog.node.controller_request import ForwardedClient
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import read_request_head, response_frame
from kraftlog.wire.messages.envelope import EnvelopeResponse
from kraftlog.wire.messages.principal import DefaultPrincipalData
from kraftlog.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from kraftlog.wire.messages.envelope import EnvelopeRequest

KEY = ApiKey.RENEW_DELEGATION_TOKEN
REQUEST = RenewDelegationTokenRequest(hmac=b"secret", renew_period_ms=7)
RESPONSE = RenewDelegationTokenResponse(error_code=0, expiry_timestamp_ms=77)
NOW = Now(1, 1)


def envelope(
    host: str = "10.0.0.7", *, is_by_token: bool = False, version: int = 2
) -> EnvelopeRequest:
    return envelope_of(KEY, version, REQUEST, ForwardedClient("User:a:b", host, is_by_token))


@pytest.mark.parametrize("is_by_token", [False, True])
def test_the_principal_is_encoded_as_by_kafka(*, is_by_token: bool) -> None:
    data = envelope(is_by_token=is_by_token).request_principal
    assert data is not None
    assert data[:2] == b"\0\0"
    assert decode(DefaultPrincipalData, 0, data[2:]) == DefaultPrincipalData(
        type="User", name="a:b", token_authenticated=is_by_token
    )


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7", bytes((10, 0, 0, 7))),
        ("[::1]", bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("nowhere", bytes(4)),
    ],
)
def test_the_address_is_that_of_the_client(host: str, address: bytes) -> None:
    assert envelope(host).client_host_address == address


@pytest.mark.parametrize("version", [1, 2])
def test_the_request_is_whole_and_in_its_version(version: int) -> None:
    data = envelope(version=version).request_data
    head = read_request_head(data, 0, len(data))
    assert (head.api_key, head.version) == (KEY, version)
    assert decode(RenewDelegationTokenRequest, version, data[head.body :]) == REQUEST


def opened(response: EnvelopeResponse | None, version: int = 2) -> Any:
    found: list[Any] = []
    opening(KEY, version, REQUEST, lambda inside, _: found.append(inside))(response, NOW)
    (inside,) = found
    return inside


@pytest.mark.parametrize("version", [1, 2])
def test_the_response_is_taken_out(version: int) -> None:
    data = b"".join(response_frame(APIS[KEY], version, 0, RESPONSE))[4:]
    response = EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE)
    assert opened(response, version) == RESPONSE


@pytest.mark.parametrize(
    "response",
    [None, EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)],
    ids=["no-response", "not-controller"],
)
def test_without_a_controller_the_request_is_sent_again(
    response: EnvelopeResponse | None,
) -> None:
    assert opened(response) is None


@pytest.mark.parametrize(
    ("envelope_code", "data", "code"),
    [
        pytest.param(ErrorCode.UNSUPPORTED_VERSION, None, ErrorCode.UNSUPPORTED_VERSION, id="old"),
        pytest.param(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            None,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            id="denied",
        ),
        pytest.param(ErrorCode.NONE, None, ErrorCode.UNKNOWN_SERVER_ERROR, id="empty"),
        pytest.param(ErrorCode.NONE, b"\0\0", ErrorCode.UNKNOWN_SERVER_ERROR, id="short"),
        pytest.param(ErrorCode.NONE, bytes(30), ErrorCode.UNKNOWN_SERVER_ERROR, id="long"),
    ],
)
def test_errors_between_nodes_are_not_shown_to_clients(
    envelope_code: int, data: bytes | None, code: int
) -> None:
    response = opened(EnvelopeResponse(response_data=data, error_code=envelope_code))
    assert response == RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=0)
