"""Connections with TLS to a server in this process: handshakes, requests, principals."""

from __future__ import annotations

import socket
import ssl
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.layers import ConfigLayers
from kraftlog.config.read_config import read_config
from kraftlog.config.tls import client_settings
from kraftlog.server.loop import read_clock
from kraftlog.server.tls_connection import TlsConnection
from kraftlog.server.tls_listeners import HANDSHAKE_NS, LOG_EVERY_NS, TlsListeners
from kraftlog.tls.certificates import parse_certificate
from kraftlog.tls.contexts import client_context
from kraftlog.tls.session import WIRE_RECORD_BYTES, TlsError, TlsSession
from kraftlog.types import Now
from kraftlog.wire.apis import BROKER
from tests.certificates import Certificates
from tests.config.starts import properties_of_case
from tests.node.frame_client import make_host
from tests.server.hosted_server import Clock, Peer, hosted
from tests.server.raw import api_versions, fetch, produce
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.server.loop import Server
    from kraftlog.server.tls_listeners import TlsListener

ANONYMOUS = "User:ANONYMOUS"
MUTUAL = "listener.name.mutual.ssl.client.auth"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(
    clock: Clock, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """A server with a listener of each kind."""
    case = {
        "listeners": "TLS://127.0.0.1:0,MUTUAL://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "listener.security.protocol.map": "TLS:SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "TLS",
        MUTUAL: "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*O=known$/$1/U",
        **certificates.settings(ssl_client_auth="requested"),
    }
    config, _ = read_config(properties_of_case(" ; ".join(f"{k}={v}" for k, v in case.items())), {})
    host = make_host(demo=1)
    with hosted(host, clock) as server:
        server.tls = TlsListeners(config, read_clock())
        layers = ConfigLayers(config.texts)
        monkeypatch.setattr(host.node, "config_layers", lambda: layers)
        for name in ("TLS", "MUTUAL", "PLAINTEXT"):
            server.ports[name] = server.listen(name, "127.0.0.1", 0, BROKER)
        server.open_client_listeners()
        yield server
        for peer in PEERS:
            peer.sock.close()
        PEERS.clear()


#: The clients of a test, which are closed at its end.
PEERS: list[Peer] = []


class TlsPeer(Peer):
    """A client with TLS and the server's connection to it."""

    def __init__(self, server: Server, name: str, context: ssl.SSLContext | None) -> None:
        super().__init__(server, server.ports[name])
        PEERS.append(self)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(LIMIT_S)
        self.session = TlsSession(context, "127.0.0.1") if context else None
        self.plain = bytearray()

    def turn(self) -> None:
        """A turn that waits for nothing."""
        if not self.connection.closed:
            self.server.dirty.append(self.connection)
            self.server.turn()

    def arrived(self) -> bytes:
        """The bytes that the server has sent; b"" if it closed the connection."""
        for _ in range(100):
            self.turn()
            with suppress(BlockingIOError, ConnectionError):
                return self.sock.recv(1 << 20, socket.MSG_DONTWAIT)
        return b""

    def handshake(self, with_last: bytes = b"") -> None:
        """Complete the handshake; `with_last` is sent together with its last bytes."""
        assert self.session is not None
        sent = self.session.handshake(b"")
        while not self.session.is_established:
            self.sock.sendall(sent)
            sent = self.session.handshake(self.arrived())
        self.sock.sendall(sent + (self.session.encrypt(with_last) if with_last else b""))
        for _ in range(3):
            self.turn()

    def send(self, data: bytes, piece_bytes: int = 1 << 20) -> None:
        assert self.session is not None
        encrypted = self.session.encrypt(data)
        self.sock.setblocking(False)
        for start in range(0, len(encrypted), piece_bytes):
            rest = encrypted[start : start + piece_bytes]
            while rest:
                with suppress(BlockingIOError):
                    rest = rest[self.sock.send(rest) :]
                self.turn()

    def responses(self, count: int) -> list[bytes]:
        """The next responses, decrypted, each from its correlation id on."""
        assert self.session is not None
        responses: list[bytes] = []
        while len(responses) < count:
            size = int.from_bytes(self.plain[:4], "big")
            if len(self.plain) >= 4 + size > 4:
                responses.append(bytes(self.plain[4 : 4 + size]))
                del self.plain[: 4 + size]
                continue
            data = self.arrived()
            if not data:
                raise ConnectionResetError
            room = memoryview(bytearray(len(data) + WIRE_RECORD_BYTES))
            self.plain += room[: self.session.decrypt(memoryview(data), [room])]
        return responses


def listener_of(server: Server, name: str) -> TlsListener:
    assert server.tls is not None
    return server.tls.listeners[name]


def trusting(certificates: Certificates, own: str | None = None, **more: str) -> ssl.SSLContext:
    properties = {**certificates.properties(own), **more}
    return client_context(client_settings(properties))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_requests_are_served_as_without_tls(
    server: Server, certificates: Certificates, version: str
) -> None:
    context = trusting(certificates, **{"ssl.enabled.protocols": version})
    peer = TlsPeer(server, "TLS", context)
    peer.handshake()
    assert peer.connection.principal == ANONYMOUS
    large, small = bytes(range(256)) * 3000, bytes(range(256)) * 200
    for number, value in enumerate((small, large)):
        peer.send(produce(number, value))
        assert peer.responses(1)[0][:4] == bytes([0, 0, 0, number])
    peer.send(fetch(2, max_bytes=60_000))
    assert small in peer.responses(1)[0]
    assert listener_of(server, "TLS").succeeded_count == 1


@pytest.mark.parametrize("piece_bytes", [1, 1000, 16401])
def test_records_may_arrive_in_pieces(
    server: Server, certificates: Certificates, piece_bytes: int
) -> None:
    peer = TlsPeer(server, "TLS", trusting(certificates))
    peer.handshake()
    size = 20 * piece_bytes
    peer.send(b"".join(map(api_versions, range(20))) + produce(20, b"x" * size), piece_bytes)
    assert [each[3] for each in peer.responses(21)] == list(range(21))
    assert peer.connection.unsent == 0


def test_a_request_may_come_with_the_end_of_the_handshake(
    server: Server, certificates: Certificates
) -> None:
    peer = TlsPeer(server, "TLS", trusting(certificates))
    peer.handshake(with_last=api_versions(7))
    assert peer.responses(1)[0][3] == 7


def test_clients_that_do_not_speak_tls_are_closed_counted_and_logged_once(
    server: Server, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        peer = TlsPeer(server, "TLS", None)
        peer.sock.sendall(api_versions(1))
        assert peer.arrived() == b""
        assert peer.connection.closed
    assert listener_of(server, "TLS").failed_count == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "no TLS handshake on TLS: it is not TLS; clients need security.protocol=SSL" in line
    clock.now_ns += LOG_EVERY_NS
    peer = TlsPeer(server, "TLS", None)
    peer.sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert peer.arrived() == b""
    assert "(2 others failed since the last line)" in capsys.readouterr().err


def test_a_connection_without_any_byte_is_no_failed_handshake(server: Server) -> None:
    """As of health checks that look whether a port is open."""
    peer = TlsPeer(server, "TLS", None)
    peer.sock.close()
    for _ in range(3):
        peer.turn()
    assert peer.connection.closed
    assert listener_of(server, "TLS").failed_count == 0


def test_tls_on_a_listener_without_it_is_named(
    server: Server, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        peer = TlsPeer(server, "PLAINTEXT", trusting(certificates))
        assert peer.session is not None
        peer.sock.sendall(peer.session.handshake(b""))
        assert peer.arrived() == b""
    [line] = capsys.readouterr().err.splitlines()  # at most once a second
    assert line.startswith("closed a new connection: 127.0.0.1:")
    assert "a TLS handshake on PLAINTEXT, which has no TLS; clients need" in line


@pytest.mark.parametrize("sent_bytes", [0, 1, 100])
def test_a_slow_handshake_ends_after_ten_seconds(
    server: Server, certificates: Certificates, clock: Clock, sent_bytes: int
) -> None:
    peer = TlsPeer(server, "TLS", trusting(certificates))
    other = TlsPeer(server, "TLS", trusting(certificates))
    other.handshake()
    assert peer.session is not None
    peer.sock.sendall(peer.session.handshake(b"")[:sent_bytes])
    for now_ns, is_closed in ((HANDSHAKE_NS - 1, False), (HANDSHAKE_NS, True)):
        clock.now_ns = now_ns
        server._maintenance_due_ms = 0
        server.node.needs_poll = True
        peer.turn()
        assert peer.connection.closed == is_closed
    assert not other.connection.closed
    assert listener_of(server, "TLS").failed_count == 1


def test_half_open_connections_have_no_session(server: Server) -> None:
    peer = TlsPeer(server, "TLS", None)
    assert isinstance(peer.connection, TlsConnection)
    assert peer.connection.session is None
    assert peer.connection.charged == 0


def refused(server: Server, name: str, context: ssl.SSLContext) -> str:
    """The alert that a client gets instead of a response, or an empty text without an alert."""
    peer = TlsPeer(server, name, context)
    try:
        peer.handshake(with_last=api_versions(1))
        peer.responses(1)
    except TlsError as error:
        return str(error)
    except OSError:
        return ""
    finally:
        peer.sock.close()
    raise AssertionError("a response")


def test_versions_before_tls_1_2_are_refused(server: Server, certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.file("ca"))
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert "protocol version" in refused(server, "TLS", context)
    assert listener_of(server, "TLS").failed_count == 1


def test_weak_ciphers_are_refused(server: Server, certificates: Certificates) -> None:
    """None without forward secrecy, encryption or a certificate, and none with SHA-1 or MD5."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.file("ca"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("kRSA:aNULL:eNULL:SHA1:MD5:@SECLEVEL=0")
    assert len(context.get_ciphers()) > 20
    assert "handshake failure" in refused(server, "TLS", context)


def test_certificates_that_are_not_trusted_are_refused(
    server: Server, certificates: Certificates
) -> None:
    import trustme

    certificates.issue("stranger", by=trustme.CA(), organization="known")
    certificates.issue("late", days=-1, organization="known")
    for own, alert in (
        (None, "certificate required"),
        ("stranger", "unknown ca"),
        ("late", "certificate expired"),
    ):
        assert alert in refused(server, "MUTUAL", trusting(certificates, own)), own
    assert listener_of(server, "MUTUAL").failed_count == 3


def test_the_certificate_is_the_principal(server: Server, certificates: Certificates) -> None:
    certificates.issue("alice", organization="known")
    certificates.issue("bob", organization="others")
    for name, own, principal in (
        ("TLS", "alice", "User:CN=alice,OU=Testing cert "),
        ("MUTUAL", "alice", "User:ALICE"),
    ):
        peer = TlsPeer(server, name, trusting(certificates, own))
        peer.handshake(with_last=api_versions(1))
        assert peer.responses(1)
        assert peer.connection.principal.startswith(principal)
    # No rule matches: the client is closed, as by Kafka.
    assert refused(server, "MUTUAL", trusting(certificates, "bob")) == ""
    assert listener_of(server, "MUTUAL").failed_count == 1


def test_clients_check_the_host_name(server: Server, certificates: Certificates) -> None:
    certificates.issue("elsewhere.example.com")
    context = trusting(certificates)
    peer = TlsPeer(server, "TLS", context)
    peer.session = TlsSession(context, "elsewhere.example.com")
    with pytest.raises(TlsError, match="certificate is not accepted: Hostname mismatch"):
        peer.handshake()


# Renewed certificates ----------------------------------------------------------------------------


def maintain(server: Server) -> None:
    """What a server does once a second."""
    server._maintain_connections(read_clock())


def own_name(server: Server, context: ssl.SSLContext) -> str:
    """The organization in the certificate that a new client sees."""
    peer = TlsPeer(server, "TLS", context)
    peer.handshake(with_last=api_versions(1))
    assert peer.session is not None
    assert peer.responses(1)
    der = peer.session.peer_certificate()
    assert der is not None
    return parse_certificate(der).subject


def test_a_replaced_file_is_used_for_new_connections(
    server: Server, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    context = trusting(certificates)
    old = TlsPeer(server, "TLS", context)
    old.handshake()
    maintain(server)
    assert capsys.readouterr().err == ""
    certificates.issue("127.0.0.1", organization="renewed")
    maintain(server)
    lines = sorted(capsys.readouterr().err.splitlines())
    users = ("listener MUTUAL", "listener TLS", "this node as a client of TLS")
    assert lines == [f"{user} uses new certificates or TLS settings" for user in users]
    assert ",O=renewed" in own_name(server, context)
    old.send(api_versions(5))
    assert old.responses(1)[0][3] == 5
    maintain(server)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["expired", "not PEM", "missing"])
def test_an_invalid_file_leaves_the_old_certificate(
    server: Server, certificates: Certificates, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = Path(certificates.file("127.0.0.1"))
    certificates.issue("127.0.0.1", organization="before")
    maintain(server)
    if kind == "expired":
        certificates.issue("127.0.0.1", days=-1)
    elif kind == "missing":
        path.unlink()
    else:
        path.write_text("half a file")
    capsys.readouterr()
    maintain(server)
    maintain(server)
    error = capsys.readouterr().err
    prefix = "listener TLS keeps its certificates, because the new ones are invalid: ssl.keystore."
    assert error.count(prefix) == 1
    assert ",O=before" in own_name(server, trusting(certificates))
    certificates.issue("127.0.0.1", organization="after")
    maintain(server)
    assert ",O=after" in own_name(server, trusting(certificates))


def test_a_dynamic_config_names_another_file(
    server: Server, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = certificates.issue("127.0.0.1", file="other", organization="dynamic")
    before = server.node.config_layers()
    key = "listener.name.tls.ssl.keystore.location"
    layers = ConfigLayers(before.file, before.all_brokers, {**before.broker, key: other})
    monkeypatch.setattr(server.node, "config_layers", lambda: layers)
    maintain(server)
    assert ",O=dynamic" in own_name(server, trusting(certificates))
    assert ",O=dynamic" not in listener_of(server, "MUTUAL").certificate.subject


def test_a_certificate_that_expires_soon_is_logged_once_a_day(
    server: Server, certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates.issue("127.0.0.1", days=10)
    now = read_clock()
    for days in (0, 0.5, 1.1, 11):
        later_ms = int(days * 86_400_000)
        server._maintain_connections(Now(now.monotonic_ms + later_ms, now.wall_ms + later_ms))
    certificates.issue("127.0.0.1")
    lines = [line for line in capsys.readouterr().err.splitlines() if " of TLS (CN=127.0" in line]
    assert [" expires on " in line for line in lines] == [True, True, False]
    assert " expired on " in lines[-1]


def test_half_open_connections_do_not_delay_others(
    server: Server, certificates: Certificates, clock: Clock
) -> None:
    """They hold no memory of TLS, and are closed together."""
    server.max_connections = 300
    waiting = [socket.create_connection(("127.0.0.1", server.ports["TLS"])) for _ in range(200)]
    for sock in waiting[:100]:
        sock.sendall(b"\x16\x03\x01")
    while len(server.connections) < 200:
        server._due_ms = 0
        server.turn()
    peer = TlsPeer(server, "TLS", trusting(certificates))
    peer.handshake(with_last=api_versions(1))
    assert peer.responses(1)
    assert server.memory.used == 0
    clock.now_ns = HANDSHAKE_NS
    for _ in range(4):
        server.turns.begin()
        maintain(server)
    assert list(server.connections.values()) == [peer.connection]
    assert listener_of(server, "TLS").failed_count == 200
    for sock in waiting:
        sock.close()
