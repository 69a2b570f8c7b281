"""The gate of a connection whose client has not logged in: any frames, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.node.authentication import LOG_INTERVAL_MS, LOGIN_MS, MAX_RECEIVE, Authentication
from kraftlog.node.pending_response import PendingResponse
from kraftlog.types import ANONYMOUS, METADATA_TOPIC
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.frame_client import FrameClient
from tests.virtual_host import SETTINGS, VirtualHost

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

LOGIN = """\
listeners=PLAINTEXT://127.0.0.1:9092,IN://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.in.plain.sasl.jaas.config=a.b.PlainLoginModule required user_alice="wonder";
"""


class SaslConnection(VirtualConnection):
    """A connection to the listener IN."""

    def __init__(self) -> None:
        super().__init__(name="IN")
        self.peer, self.max_frame, self.closed = "1.2.3.4:5", 1 << 20, False
        self.principal = ANONYMOUS
        self.gate: Any = None
        self.authenticator: Any = None

    def close_after_responses(self) -> None:
        self.closed = True


class Client:
    """A client of a node whose listener IN has SASL."""

    def __init__(self, host: VirtualHost) -> None:
        self.host = host
        self.connection = SaslConnection()
        host.node.accepted(self.connection)

    def send(self, frame: bytes) -> None:
        """A frame without its length, as the server passes it on."""
        pending = PendingResponse(self.connection)
        self.connection.responses.append(pending)
        node = self.connection.gate or self.host.node
        node.frame(pending, frame, 0, len(frame), self.host.now)

    def ask(self, api_key: int, version: int, request: Message) -> bytes:
        self.send(b"".join(request_frame(APIS[api_key], version, 1, "c", request))[4:])
        self.host.pass_time(100)  # connection.failed.authentication.delay.ms
        self.host.settle()
        return self.connection.take()


def make_host() -> VirtualHost:
    host = VirtualHost(settings=SETTINGS + LOGIN)
    assert isinstance(host.node.authentication, Authentication)
    return host


HOST = make_host()
PLAIN = SaslHandshakeRequest(mechanism="PLAIN")


def token(password: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode())


def test_a_login_opens_the_gate_and_names_the_principal() -> None:
    client = Client(HOST)
    assert client.connection.max_frame == MAX_RECEIVE
    client.ask(ApiKey.SASL_HANDSHAKE, 1, PLAIN)
    assert client.connection.principal == ANONYMOUS
    client.ask(ApiKey.SASL_AUTHENTICATE, 2, token("wonder"))
    assert client.connection.principal == "User:alice"
    assert client.connection.gate is None
    assert client.connection.max_frame == 1 << 20
    assert client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))


def test_a_refused_login_is_answered_late_and_nothing_after_it_served() -> None:
    client = Client(HOST)
    client.ask(ApiKey.SASL_HANDSHAKE, 1, PLAIN)
    client.send(
        b"".join(request_frame(APIS[ApiKey.SASL_AUTHENTICATE], 2, 1, "c", token("guess")))[4:]
    )
    assert client.connection.take() == b""
    assert client.connection.mutes == 1  # the host reads nothing more
    HOST.pass_time(100)
    HOST.settle()
    assert b"Invalid username or password" in client.connection.take()
    assert client.connection.closed
    assert client.connection.principal == ANONYMOUS


def test_api_versions_in_the_midst_of_a_login_is_refused_with_its_code() -> None:
    client = Client(HOST)
    client.ask(ApiKey.SASL_HANDSHAKE, 1, PLAIN)
    frame = client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    response: Any = decode(ApiVersionsResponse, 3, frame, 8)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.connection.closed


def test_other_requests_in_the_midst_of_a_login_get_no_response() -> None:
    client = Client(HOST)
    client.ask(ApiKey.SASL_HANDSHAKE, 1, PLAIN)
    assert client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None)) == b""
    assert client.connection.closed


def test_refused_logins_are_logged_once_a_second() -> None:
    HOST.pass_time(LOG_INTERVAL_MS)
    before = len(HOST.log_lines)
    for _ in range(5):
        client = Client(HOST)
        client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    HOST.pass_time(LOG_INTERVAL_MS)
    Client(HOST).ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    first, last = HOST.log_lines[before:]
    assert first.startswith("refused a login from 1.2.3.4:5 on IN: its client has not logged in")
    assert last.endswith("(4 more since the last such line)")


FRAMES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"".join(request_frame(APIS[key], version, 1, "c", request))[4:]
            for key, version, request in (
                (ApiKey.SASL_HANDSHAKE, 0, PLAIN),
                (ApiKey.SASL_HANDSHAKE, 1, PLAIN),
                (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256")),
                (ApiKey.SASL_AUTHENTICATE, 0, token("guess")),
                (ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"n,,n=a,r=b")),
                (ApiKey.METADATA, 9, MetadataRequest(topics=None)),
            )
        ]
    ).flatmap(lambda frame: st.integers(0, 4).map(lambda cut: frame[: len(frame) - cut])),
)


@given(st.lists(FRAMES, max_size=5))
def test_no_frames_without_the_password_pass_the_gate(frames: list[bytes]) -> None:
    client = Client(HOST)
    for frame in frames:
        try:
            client.send(frame)
        except ProtocolError:
            break
        if client.connection.mutes:
            break
    assert client.connection.gate is not None
    assert client.connection.principal == ANONYMOUS


@pytest.mark.parametrize("version", [0, 1])
def test_a_listener_without_sasl_refuses_a_login(version: int) -> None:
    connection = SaslConnection()
    connection.listener_name = "PLAINTEXT"
    HOST.node.accepted(connection)
    assert connection.gate is None
    client = Client(HOST)
    client.connection = connection
    assert client.ask(ApiKey.SASL_HANDSHAKE, version, PLAIN)[8:10] == b"\0\x22"


def test_a_client_has_ten_seconds_to_log_in() -> None:
    """Those who wait take memory from those who have logged in."""
    host = make_host()
    slow, fast = Client(host), Client(host)
    for client in (slow, fast):
        client.ask(ApiKey.SASL_HANDSHAKE, 1, PLAIN)
    fast.ask(ApiKey.SASL_AUTHENTICATE, 2, token("wonder"))
    host.pass_time(LOGIN_MS)
    host.settle()
    assert isinstance(slow.connection.failure, ConnectionAbortedError)
    assert fast.connection.failure is None
    assert host.log_lines[-1] == (
        "closed the connection from 1.2.3.4:5: its client has not logged in within 10 s"
    )
    assert host.node.authentication is not None
    assert host.node.authentication.counts["IN"].failed == 1


@pytest.mark.parametrize("listener", ["", LOGIN])
def test_the_metadata_log_is_not_served_where_it_may_have_secrets(listener: str) -> None:
    """Q27: as with Kafka's brokers, the topic is unknown then."""
    host = VirtualHost(settings=SETTINGS + listener)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic=METADATA_TOPIC,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
    )
    [topic] = FrameClient(host).ask(ApiKey.FETCH, 12, request).responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.partitions[0].error_code == (unknown if listener else ErrorCode.NONE)
