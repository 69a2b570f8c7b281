"""Limits of connections: in total, per address, and their idle time."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.keys import BROKER as BROKER_RESOURCE
from kraftlog.server.limits import parse_overrides
from kraftlog.server.listening import bind, host_of
from kraftlog.server.loop import Server
from kraftlog.wire.apis import CONTROLLER
from tests.node.frame_client import make_host, set_config
from tests.server.hosted_server import Clock, hosted, listen
from tests.server.raw import api_versions
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.virtual_host import VirtualHost

    Connect = Callable[[], socket.socket]

IDLE_MS = 600_000


@pytest.fixture
def host() -> VirtualHost:
    return make_host()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(host: VirtualHost, clock: Clock) -> Iterator[Server]:
    with hosted(host, clock) as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    port = listen(server)
    sockets: list[socket.socket] = []

    def connect_client() -> socket.socket:
        sockets.append(socket.create_connection(("127.0.0.1", port), LIMIT_S))
        run_turn(server)
        return sockets[-1]

    yield connect_client
    for sock in sockets:
        sock.close()


def run_turn(server: Server) -> None:
    """Run a turn that does not wait, and runs everything that is due."""
    server._maintenance_due_ms = 0
    server.node.needs_poll = True
    os.eventfd_write(server.io_threads.ready_fd, 1)
    server.turn()


def set_limit(host: VirtualHost, key: str, value: object) -> None:
    set_config(host, BROKER_RESOURCE, "", key, value)


def is_closed(sock: socket.socket) -> bool:
    sock.settimeout(LIMIT_S)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_have_keepalive_and_nodelay(server: Server, connect: Connect) -> None:
    connect()
    [connection] = server.connections.values()
    assert connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_idle_connection_is_closed(server: Server, connect: Connect, clock: Clock) -> None:
    idle, busy = connect(), connect()
    clock.now_ns += (IDLE_MS - 1) * 1_000_000
    busy.sendall(api_versions(1))
    run_turn(server)
    assert len(server.connections) == 2
    clock.now_ns += 1_000_000
    run_turn(server)
    assert is_closed(idle)
    assert len(server.connections) == 1
    clock.now_ns += IDLE_MS * 1_000_000
    run_turn(server)
    assert not server.connections


def test_connections_beyond_the_limit_wait_until_one_closes(
    host: VirtualHost, server: Server, connect: Connect
) -> None:
    set_limit(host, "max.connections", 2)
    first, _, late = connect(), connect(), connect()
    late.sendall(api_versions(1))
    run_turn(server)
    assert len(server.connections) == 2
    first.close()
    for _ in range(5):
        run_turn(server)
    late.settimeout(LIMIT_S)
    assert late.recv(100)
    assert len(server.connections) == 2


def test_connection_limit_does_not_apply_to_controllers(
    host: VirtualHost, server: Server, connect: Connect
) -> None:
    set_limit(host, "max.connections", 1)
    port = server.listen("CONTROLLER", "127.0.0.1", 0, CONTROLLER)
    connect()
    connect()
    assert len(server.connections) == 1
    with socket.create_connection(("127.0.0.1", port), LIMIT_S):
        run_turn(server)
        assert len(server.connections) == 2


def test_address_with_too_many_connections_is_refused(
    host: VirtualHost, server: Server, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    set_limit(host, "max.connections.per.ip", 2)
    first, _, third = connect(), connect(), connect()
    assert is_closed(third)
    assert "127.0.0.1 has reached max.connections.per.ip (2)" in capfd.readouterr().err
    first.close()
    for _ in range(3):
        run_turn(server)
    connect()
    assert len(server.connections) == 2
    set_limit(host, "max.connections.per.ip.overrides", "10.0.0.1:1,127.0.0.1:3")
    connect()
    assert len(server.connections) == 3


def test_overrides_accept_ipv4_and_ipv6() -> None:
    assert parse_overrides("10.0.0.1:5, [::1]:7") == {"10.0.0.1": 5, "::1": 7}
    assert parse_overrides("") == {}


def test_listener_without_a_host_accepts_ipv4_and_ipv6() -> None:
    with bind("", 0) as sock:
        sock.listen(2)
        sock.settimeout(LIMIT_S)
        port = sock.getsockname()[1]
        hosts = []
        for host in ("127.0.0.1", "::1"):
            try:
                peer = socket.create_connection((host, port), LIMIT_S)
            except OSError:  # a machine without IPv6 has no ::1
                assert host == "::1"
                continue
            with peer:
                accepted, address = sock.accept()
                accepted.close()
                hosts.append(host_of(address))
        assert hosts in (["127.0.0.1", "::1"], ["127.0.0.1"])


def test_listener_with_a_host_accepts_only_its_address() -> None:
    with bind("127.0.0.1", 0) as sock:
        assert sock.family == socket.AF_INET
    assert host_of(("::ffff:10.1.2.3", 5)) == "10.1.2.3"
    assert host_of(("::1", 5)) == "::1"
