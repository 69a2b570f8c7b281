"""Channels to other nodes with TLS: the same reports as without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.config.read_config import read_config
from kraftlog.config.tls import client_settings
from kraftlog.effects import ConnectionRefused, RequestFailed, ResponseReceived
from kraftlog.runner.peers import CLOSED
from kraftlog.server.loop import read_clock
from kraftlog.server.peers import TLS_CLOSED
from kraftlog.server.tls_listeners import TlsListeners
from kraftlog.tls.contexts import server_context
from kraftlog.tls.session import WIRE_RECORD_BYTES, TlsSession
from kraftlog.wire.apis import ApiKey
from tests.certificates import Certificates
from tests.config.starts import properties_of_case
from tests.server.test_peers import (
    PeerLinks,
    api_of,
    large_vote_frame,
    supported_versions_frame,
    vote_frame,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path, "elsewhere")


@pytest.fixture
def links(certificates: Certificates) -> Iterator[PeerLinks]:
    """Channels to controllers whose listener has TLS."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        **certificates.settings(),
    }
    case = " ; ".join(f"{key}={value}" for key, value in settings.items())
    config, _ = read_config(properties_of_case(case), {})
    links = PeerLinks()
    links.peers.tls = TlsListeners(config, read_clock())
    yield links
    links.peers.close()
    links.listener.close()
    links.epoll.close()


class TlsEnd:
    """The other node's end of a connection."""

    def __init__(self, links: PeerLinks, certificates: Certificates, own: str) -> None:
        self.links = links
        self.sock, _ = links.listener.accept()
        self.sock.setblocking(False)
        keystore = {"ssl.keystore.location": certificates.file(own), "ssl.client.auth": "requested"}
        keystore["ssl.truststore.location"] = certificates.file("ca")
        context, _ = server_context(client_settings(keystore), read_clock().wall_ms / 1000)
        self.session = TlsSession(context)

    def received(self) -> bytes:
        """The next bytes, as the channel sends them."""
        while True:
            try:
                return self.sock.recv(1 << 16)
            except BlockingIOError:
                self.links.handle_events()

    def handshake(self) -> None:
        while not self.session.is_established:
            self.sock.sendall(self.session.handshake(self.received()))

    def request(self) -> bytes:
        room = memoryview(bytearray(1 << 17))
        count = self.session.decrypt(memoryview(b""), [room])  # what came with the handshake
        while not count:
            count = self.session.decrypt(memoryview(self.received()), [room])
        return bytes(room[:count])

    def send(self, data: bytes) -> None:
        self.sock.setblocking(True)
        self.sock.settimeout(LIMIT_S)
        self.sock.sendall(self.session.encrypt(data))
        self.sock.setblocking(False)


@pytest.fixture
def other(links: PeerLinks, certificates: Certificates) -> Iterator[TlsEnd]:
    """The end of a connection on which a Vote waits for its response."""
    links.send_vote()
    end = TlsEnd(links, certificates, "127.0.0.1")
    end.handshake()
    assert api_of(end.request()) == (ApiKey.API_VERSIONS, 3)
    end.send(supported_versions_frame(2))
    assert api_of(end.request()) == (ApiKey.VOTE, 2)
    yield end
    end.sock.close()


def test_requests_and_responses_are_encrypted(links: PeerLinks, other: TlsEnd) -> None:
    assert other.session.peer_certificate() is not None
    other.send(vote_frame(1))
    assert isinstance(links.next_report(), ResponseReceived)


def test_a_response_of_many_records_is_received(links: PeerLinks, other: TlsEnd) -> None:
    response = large_vote_frame(1)
    assert len(response) > 10 * WIRE_RECORD_BYTES
    for start in range(0, len(response), 50_000):
        other.send(response[start : start + 50_000])
        links.handle_events()
    report = links.next_report()
    assert isinstance(report, ResponseReceived)
    assert len(report.response.topics) == 1000


def test_a_dead_peer_is_noticed_at_once(links: PeerLinks, other: TlsEnd) -> None:
    """By the reconnect, as without TLS: failover does not wait for a timeout."""
    links.listener.close()
    other.sock.close()
    reports = [links.next_report(), links.next_report()]
    assert {type(report) for report in reports} == {RequestFailed, ConnectionRefused}


def test_a_peer_that_dies_in_the_handshake_is_noticed(
    links: PeerLinks, certificates: Certificates
) -> None:
    links.send_vote()
    end = TlsEnd(links, certificates, "127.0.0.1")
    end.received()
    links.listener.close()
    end.sock.close()
    reports = [links.next_report(), links.next_report()]
    assert {type(report) for report in reports} == {RequestFailed, ConnectionRefused}
    assert TLS_CLOSED in [report.reason for report in reports if isinstance(report, RequestFailed)]


@pytest.mark.parametrize("garbage", [b"\x17\x03\x03\0\x20" + b"x" * 32, b"plain text"])
def test_bytes_that_are_not_of_the_session_close_the_channel(
    links: PeerLinks, other: TlsEnd, garbage: bytes
) -> None:
    other.sock.send(garbage)
    report = links.next_report()
    assert isinstance(report, RequestFailed)
    assert report.reason.startswith("TLS: ")
    assert report.reason != CLOSED


def test_a_certificate_of_another_host_is_refused(
    links: PeerLinks, certificates: Certificates
) -> None:
    links.send_vote()
    end = TlsEnd(links, certificates, "elsewhere")
    end.sock.sendall(end.session.handshake(end.received()))
    report = links.next_report()
    assert isinstance(report, RequestFailed)
    assert report.reason.startswith("the TLS handshake failed: the certificate is not accepted: ")
    assert "IP address mismatch" in report.reason
    end.sock.close()


def test_a_peer_without_tls_is_named(links: PeerLinks, certificates: Certificates) -> None:
    links.send_vote()
    end = TlsEnd(links, certificates, "127.0.0.1")
    end.received()
    end.sock.sendall(supported_versions_frame(2))
    report = links.next_report()
    assert isinstance(report, RequestFailed)
    assert report.reason.startswith("the TLS handshake failed: ")
    end.sock.close()


def test_channels_to_brokers_have_the_security_of_their_listener(links: PeerLinks) -> None:
    tls = links.peers.tls
    assert tls is not None
    for name, has_tls in (
        ("quorum", True),
        ("controller", True),
        ("heartbeat", True),
        ("discovery", True),
        ("reads", True),
        ("probe", False),
        ("replication-0", False),
    ):
        assert (tls.client_of(name) is not None) == has_tls, name
