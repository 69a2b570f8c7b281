"""Envelopes that a broker makes are read by the controller, and their responses by the broker."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.broker.envelopes import envelope_of, response_in
from kraftlog.node.controller_request import ControllerRequest, ForwardedClient
from kraftlog.node.handlers.envelope import _client
from kraftlog.wire import codec
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.frames import read_request_head
from kraftlog.wire.messages.create_topics import CreateTopicsRequest
from kraftlog.wire.messages.envelope import EnvelopeResponse
from tests.node.frame_client import creation

VERSION = 7


def request_of() -> ControllerRequest:
    return ControllerRequest(
        ApiKey.CREATE_TOPICS, VERSION, creation({"demo": 3}), lambda *_: None, lambda *_: True
    )


@pytest.mark.parametrize(
    ("host", "read"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("[::1]", "0:0:0:0:0:0:0:1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("", "0.0.0.0"),
    ],
    ids=["IPv4", "brackets", "IPv6", "scope", "unknown"],
)
@pytest.mark.parametrize("client_id", ["an app", "", None], ids=["id", "empty", "none"])
@pytest.mark.parametrize("is_by_token", [False, True])
def test_the_controller_reads_client_and_request(
    host: str, read: str, client_id: str | None, *, is_by_token: bool
) -> None:
    client = ForwardedClient("User:CN=a:b,O=ü", host, client_id, is_by_token)
    envelope = envelope_of(request_of(), client)
    data = envelope.request_data
    head = read_request_head(data, 0, len(data))
    assert _client(envelope, head) == client.replace(host=read)
    assert (head.api_key, head.version, head.client_id) == (
        ApiKey.CREATE_TOPICS,
        VERSION,
        client_id,
    )
    request: Any = codec.decode_request(CreateTopicsRequest, VERSION, data, head.body, len(data))
    assert [(it.name, it.num_partitions) for it in request.topics] == [("demo", 3)]


@pytest.mark.parametrize(
    ("code", "data", "expected"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, None, ErrorCode.UNSUPPORTED_VERSION),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, None, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NONE, b"\0\0\0\0\0", ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NONE, None, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=["version", "authorization", "principal", "cut", "empty"],
)
def test_errors_of_the_envelope_are_of_each_topic(
    code: int, data: bytes | None, expected: int
) -> None:
    envelope = EnvelopeResponse(response_data=data, error_code=code)
    response = response_in(envelope, request_of())
    assert [(it.name, it.error_code) for it in response.topics] == [("demo", expected)]


def test_another_controller_is_asked_again() -> None:
    envelope = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert response_in(envelope, request_of()) is None
