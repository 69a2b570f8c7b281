"""New connections beyond a rate wait; those of an address beyond its quota are held and closed."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from kraftlog.server import connection_rates
from kraftlog.wire.apis import BROKER, CONTROLLER
from tests.node.frame_client import make_host
from tests.node.test_client_quotas import alter
from tests.server.hosted_server import Clock, hosted, listen
from tests.server.raw import api_versions
from tests.server.test_limits import is_closed, run_turn, set_limit
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.server.loop import Server
    from tests.server.test_limits import Connect
    from tests.virtual_host import VirtualHost

KEY = "max.connection.creation.rate"
#: Ten of the eleven windows count as complete: so many connections are accepted at once.
BURST = 10


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


def pass_ms(server: Server, clock: Clock, ms: int) -> None:
    clock.now_ns += ms * 1_000_000
    for _ in range(3):
        run_turn(server)


@pytest.mark.parametrize("key", [KEY, f"listener.name.plaintext.{KEY}"], ids=["node", "listener"])
def test_connections_beyond_the_rate_wait(
    host: VirtualHost, server: Server, connect: Connect, clock: Clock, key: str
) -> None:
    set_limit(host, key, 1)
    *_, late = [connect() for _ in range(BURST + 3)]
    assert len(server.connections) == BURST
    deadline = server.rates.deadline()
    assert deadline == 1000
    pass_ms(server, clock, 999)
    assert len(server.connections) == BURST
    for number in (1, 2, 3):
        pass_ms(server, clock, 1000)
        assert len(server.connections) == BURST + number
    late.sendall(api_versions(1))
    run_turn(server)
    run_turn(server)
    assert late.recv(100)


def test_a_waiting_listener_waits_on_while_others_close(
    host: VirtualHost, server: Server, connect: Connect, clock: Clock
) -> None:
    """The limit of all connections ends with a closed one; the rate does not."""
    set_limit(host, KEY, 1)
    first = connect()
    for _ in range(BURST):
        connect()
    server._pause_accepting("a test", server.node.now)
    first.close()
    for _ in range(3):
        run_turn(server)
    assert server.accept_paused_until_ms is None
    assert len(server.connections) == BURST - 1
    pass_ms(server, clock, 1000)
    assert len(server.connections) == BURST


def test_the_rate_of_the_node_is_that_of_client_listeners(
    host: VirtualHost, server: Server, connect: Connect
) -> None:
    set_limit(host, KEY, 1)
    ports = [
        server.listen("CONTROLLER", "127.0.0.1", 0, CONTROLLER),
        server.listen("EXTERNAL", "127.0.0.1", 0, BROKER),
    ]
    server.open_client_listeners()
    set_limit(host, f"listener.name.plaintext.{KEY}", 1000)  # that of the brokers here
    for _ in range(2 * BURST):
        connect()
    sockets = [
        socket.create_connection(("127.0.0.1", port), LIMIT_S)
        for port in ports
        for _ in range(BURST + 5)
    ]
    for _ in range(3):
        run_turn(server)
    by_listener = [it.listener_name for it in server.connections.values()]
    counts = {name: by_listener.count(name) for name in set(by_listener)}
    assert counts == {"PLAINTEXT": 2 * BURST, "CONTROLLER": BURST + 5, "EXTERNAL": BURST}
    for sock in sockets:
        sock.close()


@pytest.mark.parametrize("address", ["127.0.0.1", None], ids=["specific", "default"])
def test_connections_of_an_address_beyond_its_quota_are_held_and_closed(
    host: VirtualHost, server: Server, connect: Connect, clock: Clock, address: str | None
) -> None:
    alter(host, "connection_creation_rate", 1, ip=address)
    alter(host, "connection_creation_rate", 1000, ip="127.0.0.2")
    served = [connect() for _ in range(BURST)]
    late = connect()
    late.sendall(api_versions(1))
    run_turn(server)
    assert len(server.connections) == BURST
    assert server.rates.held == 1
    late.setblocking(False)
    with pytest.raises(BlockingIOError):
        late.recv(100)
    pass_ms(server, clock, 1000)
    assert is_closed(late)
    assert server.rates.held == 0
    clock.now_ns += 10_000 * 1_000_000  # until the first ones are out of the windows
    connect()
    assert len(server.connections) == BURST + 1
    served[0].sendall(api_versions(1))
    run_turn(server)
    run_turn(server)
    assert served[0].recv(100)


def test_a_quota_of_an_address_that_is_set_again_starts_anew(
    host: VirtualHost, server: Server, connect: Connect
) -> None:
    for expected in (BURST, 2 * BURST):
        alter(host, "connection_creation_rate", 1, ip="127.0.0.1")
        for _ in range(BURST + 2):
            connect()
        assert len(server.connections) == expected
        alter(host, "connection_creation_rate", None, ip="127.0.0.1")


def test_held_sockets_are_bounded(
    host: VirtualHost, server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_rates, "MAX_HELD", 3)
    alter(host, "connection_creation_rate", 1, ip=None)
    for _ in range(BURST):
        connect()
    first = connect()
    for _ in range(3):
        connect()
    assert server.rates.held == 3
    assert is_closed(first)
