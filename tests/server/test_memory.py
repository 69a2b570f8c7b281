"""The memory of connections, and the limit for all of them."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kraftlog.server import connections
from kraftlog.server.connections import MAX_HELD, SMALL_FRAME
from kraftlog.server.loop import MAINTENANCE_MS, Server
from kraftlog.server.memory import ALWAYS_READ_BYTES, DEFAULT_LIMIT, IDLE_MS, ClientMemory, limit_of
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.node.frame_client import make_host
from tests.server.hosted_server import Clock, Peer, hosted, peers_of, turn_until
from tests.server.raw import api_versions, fetch, frame, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Connect = Callable[[], Peer]

LIMIT = 4 << 20
MAX_FRAME = 2 << 20


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[Server]:
    host = make_host(wide=100, demo=1)
    with hosted(host, clock, max_frame=MAX_FRAME, memory=ClientMemory(LIMIT)) as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with peers_of(server) as connect:
        yield connect


def send_all(server: Server, peer: Peer, data: bytes) -> int:
    """Send the data, until the node receives no more; return the number of sent bytes."""
    peer.sock.setblocking(False)
    sent = idle_turns = 0
    while sent < len(data) and idle_turns < 20:
        idle_turns += 1
        with suppress(BlockingIOError):
            sent += peer.sock.send(data[sent:])
            idle_turns = 0
        server.dirty.append(peer.connection)  # a turn that waits for nothing
        server.turn()
    return sent


def test_an_announced_length_uses_no_memory(server: Server, connect: Connect) -> None:
    """A buffer is at most four times as large as the received bytes."""
    peer = connect()
    head = struct.pack(">i", MAX_FRAME)
    received = 0
    for part in (head, b"a" * 1000, b"b" * SMALL_FRAME, b"c" * (512 << 10)):
        received += send_all(server, peer, part)
        for _ in range(10):
            server.dirty.append(peer.connection)
            server.turn()
        assert received - len(head) <= peer.connection.charged <= 4 * received
    assert server.memory.used == peer.connection.charged


def test_a_large_frame_in_parts_is_served(server: Server, connect: Connect) -> None:
    peer = connect()
    requests = produce(1, bytes(900_000)) + produce(2, b"second")
    for start in range(0, len(requests), 50_000):
        send_all(server, peer, requests[start : start + 50_000])
    turn_until(server, lambda: len(peer.received_ids()) == 2)
    assert peer.received_ids() == [1, 2]
    assert server.memory.used == peer.connection.charged == 0


def test_unread_responses_pause_their_connection(server: Server, connect: Connect) -> None:
    peer = connect()
    request = frame(1, ApiKey.METADATA, MetadataRequest(topics=None))
    send_all(server, peer, request * 20_000)
    connection = peer.connection
    turn_until(server, connection.is_reading_paused)
    assert MAX_HELD <= connection.charged < MAX_HELD + SMALL_FRAME + connections.READ_SIZE + 4096
    assert server.memory.used == connection.charged
    peer.sock.close()
    turn_until(server, lambda: not server.connections)
    assert server.memory.used == 0


def test_file_slices_do_not_count_as_memory(server: Server, connect: Connect) -> None:
    peer = connect()
    send_all(server, peer, produce(1, bytes(900_000)))
    turn_until(server, lambda: peer.received_ids() == [1])
    send_all(server, peer, fetch(2) * 8)
    connection = peer.connection
    assert connection.in_files > 0
    assert connection.unsent - connection.in_files < SMALL_FRAME + connections.SEND_SIZE


def test_at_the_limit_only_large_users_wait(server: Server, connect: Connect) -> None:
    greedy = [connect() for _ in range(8)]
    for peer in greedy:
        send_all(server, peer, struct.pack(">i", MAX_FRAME) + bytes(1 << 20))
    assert server.memory.used < LIMIT + (1 << 20)
    waiting = [peer for peer in greedy if peer.connection.is_reading_paused()]
    assert waiting
    other = connect()
    send_all(server, other, api_versions(3))
    turn_until(server, lambda: other.received_ids() == [3])
    last = waiting[-1]
    for peer in greedy:
        if peer is not last:
            server._drop(peer.connection)
    turn_until(
        server, lambda: not last.connection.is_reading_paused() and last.connection.events > 0
    )


def test_concurrent_large_requests_at_the_limit_are_all_served(
    server: Server, connect: Connect
) -> None:
    """At the limit, one connection at a time continues. No time passes, so none is idle."""
    peers = [connect() for _ in range(8)]
    unsent = {peer: produce(1, bytes(900_000)) for peer in peers}
    for peer in peers:
        peer.sock.setblocking(False)
    has_waited = False
    for _ in range(1000):
        for peer in unsent:
            with suppress(BlockingIOError):
                unsent[peer] = unsent[peer][peer.sock.send(unsent[peer][:50_000]) :]
            server.dirty.append(peer.connection)
        server.turn()
        has_waited = has_waited or bool(server.memory.waiting)
        assert server.memory.used < LIMIT + MAX_FRAME
        if all(peer.received_ids() == [1] for peer in peers):
            break
    assert has_waited
    assert [peer.received_ids() for peer in peers] == [[1]] * len(peers)
    assert server.memory.used == 0
    assert server.memory.exempt is None


def test_idle_connections_are_closed_to_free_memory(
    server: Server, connect: Connect, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = [connect() for _ in range(8)]
    for peer in idle:
        send_all(server, peer, struct.pack(">i", MAX_FRAME) + bytes(1 << 20))
    assert server.memory.waiting
    small = connect()
    clock.now_ns += MAINTENANCE_MS * 1_000_000
    send_all(server, small, api_versions(3))
    assert len(server.connections) == len(idle) + 1
    clock.now_ns += IDLE_MS * 1_000_000
    server.dirty.append(small.connection)
    server.node.needs_poll = True
    server.turn()
    assert small.connection.fd in server.connections
    assert 1 < len(server.connections) < len(idle) + 1
    assert not server.memory.is_low
    assert "been idle for 30 s" in capfd.readouterr().err


def step(server: Server, unsent: dict[Peer, memoryview], size: int) -> None:
    """Run a turn; before it each peer sends up to `size` bytes, as far as its socket takes them."""
    for peer in unsent:
        peer.sock.setblocking(False)
        with suppress(BlockingIOError):
            unsent[peer] = unsent[peer][peer.sock.send(unsent[peer][:size]) :]
        server.dirty.append(peer.connection)
    server.turn()


def test_a_busy_connection_does_not_starve_others(server: Server, connect: Connect) -> None:
    """At the limit, one connection at a time may read one request."""
    server.memory.change(LIMIT)
    greedy, *others = [connect() for _ in range(4)]
    unsent = {greedy: memoryview(produce(1, bytes(900_000)) * 100)}
    for _ in range(20):
        step(server, unsent, 200_000)
    assert server.memory.exempt is greedy.connection
    unsent |= {peer: memoryview(produce(1, bytes(900_000))) for peer in others}
    for _ in range(200):
        step(server, unsent, 200_000)
        assert server.memory.used < LIMIT + 2 * MAX_FRAME
    assert [peer.received_ids() for peer in others] == [[1]] * len(others)
    assert len(greedy.received_ids()) > len(others)


def test_a_paused_connection_is_not_closed_as_idle(
    server: Server, connect: Connect, clock: Clock
) -> None:
    server.memory.change(LIMIT)
    stalled, *others = [connect() for _ in range(4)]
    unsent = {stalled: memoryview(struct.pack(">i", MAX_FRAME) + bytes(SMALL_FRAME * 2))}
    for _ in range(20):
        step(server, unsent, 40_000)
    assert server.memory.exempt is stalled.connection
    unsent |= {peer: memoryview(produce(1, bytes(900_000))) for peer in others}
    for _ in range(20):
        step(server, unsent, 200_000)
    assert len(server.memory.waiting) == len(others)
    clock.now_ns += (IDLE_MS + MAINTENANCE_MS) * 1_000_000
    server.node.needs_poll = True
    for _ in range(200):
        step(server, unsent, 200_000)
    assert stalled.connection.closed
    assert [peer.received_ids() for peer in others] == [[1]] * len(others)


def test_freed_memory_is_returned_to_the_system() -> None:
    memory = ClientMemory()
    memory.change(100 << 20)
    memory.change(-(99 << 20))
    memory.trim()
    assert memory.peak == 1 << 20


def test_queued_max_request_bytes_limits_all_connections() -> None:
    """-1 means no limit in Kafka; here there is one."""
    assert (limit_of(-1), limit_of(1 << 30)) == (DEFAULT_LIMIT, 1 << 30)
    assert ALWAYS_READ_BYTES < DEFAULT_LIMIT
