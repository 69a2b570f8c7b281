"""Envelope: requests forwarded by Kafka's brokers are served, with Kafka's errors."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.create_topics import CreateTopicsRequest
from kraftlog.wire.messages.envelope import EnvelopeRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.schema import Message
from tests.node.frame_client import FrameClient, creation, make_host
from tests.node.three_nodes import ThreeNodes
from tests.virtual_host import VirtualHost

CORRELATION_ID = 77
#: The last version of CreateTopics.
VERSION = 7


def embedded(api_key: int, version: int, request: Message) -> bytes:
    frame = b"".join(request_frame(APIS[api_key], version, CORRELATION_ID, "a client", request))
    return frame[4:]


def envelope_of(data: bytes) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=data, request_principal=None, client_host_address=b"\x7f\0\0\1"
    )


def forward(host: VirtualHost, data: bytes) -> Any:
    """The response to an Envelope with these bytes."""
    client = FrameClient(host, CONTROLLER)
    client.send(ApiKey.ENVELOPE, 0, envelope_of(data))
    host.settle()
    ((_, answer),) = client.take()
    return answer


def response_in(envelope: Any, api_key: int, version: int) -> Any:
    """The embedded response, which has the embedded request's correlation id."""
    data = envelope.response_data
    assert struct.unpack_from(">i", data) == (CORRELATION_ID,)
    api = APIS[api_key]
    return decode(api.response(), version, data[4 + api.response_header_version(version) :])


@pytest.mark.parametrize("version", range(2, VERSION + 1))
def test_embedded_request_is_served_in_its_version(version: int) -> None:
    host = VirtualHost()
    request = creation({"demo": 2})
    answer = forward(host, embedded(ApiKey.CREATE_TOPICS, version, request))
    assert answer.error_code == ErrorCode.NONE
    (topic,) = response_in(answer, ApiKey.CREATE_TOPICS, version).topics
    assert (topic.name, topic.error_code) == ("demo", ErrorCode.NONE)
    assert "demo" in host.node.image.topic_ids


def test_errors_of_the_embedded_request_are_in_its_response() -> None:
    host = make_host(demo=1)
    answer = forward(host, embedded(ApiKey.CREATE_TOPICS, VERSION, creation({"demo": 1})))
    assert answer.error_code == ErrorCode.NONE
    (topic,) = response_in(answer, ApiKey.CREATE_TOPICS, VERSION).topics
    assert topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_large_embedded_request_is_decoded_in_steps() -> None:
    host = VirtualHost()
    topics = {f"a-topic-with-a-long-name-{number:08}": 1 for number in range(500)}
    data = embedded(ApiKey.CREATE_TOPICS, VERSION, creation(topics))
    answer = forward(host, data)
    created = response_in(answer, ApiKey.CREATE_TOPICS, VERSION).topics
    assert {topic.name: topic.error_code for topic in created} == dict.fromkeys(topics, 0)


def test_controller_that_is_not_active_refuses_the_envelope() -> None:
    """The broker gets NOT_CONTROLLER, and looks for the active controller."""
    hosts = ThreeNodes(Random(1)).hosts.values()
    other = next(host for host in hosts if not host.node.quorum.is_leader)
    answer = forward(other, embedded(ApiKey.CREATE_TOPICS, VERSION, creation({"demo": 1})))
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (
            embedded(ApiKey.METADATA, 12, MetadataRequest(topics=None)),
            ErrorCode.INVALID_REQUEST,
        ),
        (embedded(ApiKey.ENVELOPE, 0, envelope_of(b"")), ErrorCode.INVALID_REQUEST),
        (b"", ErrorCode.UNSUPPORTED_VERSION),
        (b"\0\x13", ErrorCode.UNSUPPORTED_VERSION),
        (
            embedded(ApiKey.CREATE_TOPICS, VERSION, creation({"a": 1}))[:-4],
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            b"\0\x13\0\x63"
            + embedded(ApiKey.CREATE_TOPICS, VERSION, CreateTopicsRequest(topics=()))[4:],
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
    ids=["not forwardable", "nested", "empty", "cut header", "cut body", "unknown version"],
)
def test_envelope_that_cannot_be_served_is_refused(data: bytes, code: int) -> None:
    answer = forward(make_host(), data)
    assert (answer.error_code, answer.response_data) == (code, None)


def test_closed_connection_ends_the_waiting_request() -> None:
    host = VirtualHost()
    client = FrameClient(host, CONTROLLER)
    data = embedded(ApiKey.CREATE_TOPICS, VERSION, creation({"demo": 1}))
    client.send(ApiKey.ENVELOPE, 0, envelope_of(data))
    pending: Any = client.connection.responses[0]
    waiting = pending.waiter.waiter
    pending.abandon()
    assert waiting.done


def test_clients_are_not_offered_the_envelope() -> None:
    assert not APIS[ApiKey.ENVELOPE].listeners & BROKER
