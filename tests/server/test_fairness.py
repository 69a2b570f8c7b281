"""Connections share a turn in slices. The clock advances by `REQUEST_NS` whenever it is read."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.server import connections, loop
from kraftlog.server.loop import Server
from kraftlog.server.turns import SLICE_NS, TURN_NS
from tests.node.frame_client import make_host
from tests.server.hosted_server import Peer, hosted, peers_of, turn_until
from tests.server.raw import api_versions, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.node.pending_response import PendingResponse

    Connect = Callable[[], Peer]

#: The time that an ApiVersions request takes: the server reads the clock after each.
REQUEST_NS = SLICE_NS // 4
REQUESTS_PER_SLICE = SLICE_NS // REQUEST_NS
SLICES_PER_TURN = TURN_NS // SLICE_NS
MANY = 200


@pytest.fixture
def server() -> Iterator[Server]:
    with hosted(make_host(), count(0, REQUEST_NS).__next__) as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with peers_of(server) as connect:
        yield connect


def requests(amount: int) -> bytes:
    return b"".join([api_versions(number) for number in range(amount)])


def test_pipelining_connection_gets_a_slice_per_turn(server: Server, connect: Connect) -> None:
    """Another connection is served in the same turn, even if its request arrives last."""
    greedy, other = connect(), connect()
    greedy.sock.sendall(requests(MANY))
    other.sock.sendall(api_versions(7))
    server.turn()
    assert len(greedy.received_ids()) < REQUESTS_PER_SLICE * SLICES_PER_TURN
    assert other.received_ids() == [7]


def test_remaining_requests_are_served_in_order_in_later_turns(
    server: Server, connect: Connect
) -> None:
    greedy = connect()
    greedy.sock.sendall(requests(MANY))
    turns = turn_until(server, lambda: len(greedy.received_ids()) == MANY)
    assert greedy.received_ids() == list(range(MANY))
    assert turns >= MANY / (REQUESTS_PER_SLICE * (SLICES_PER_TURN + 1))
    assert not greedy.connection.holds_frames


def test_connections_with_remaining_requests_rotate(server: Server, connect: Connect) -> None:
    greedy = [connect() for _ in range(6)]
    for peer in greedy:
        peer.sock.sendall(requests(MANY))
    turn_until(server, lambda: all(peer.connection.holds_frames for peer in greedy))
    before = [peer.served for peer in greedy]
    for _ in range(20):
        server.turn()
        served = [peer.served - start for peer, start in zip(greedy, before, strict=True)]
        assert max(served) - min(served) <= REQUESTS_PER_SLICE
    assert all(peer.served > start for peer, start in zip(greedy, before, strict=True))


def test_new_requests_go_before_remaining_ones(server: Server, connect: Connect) -> None:
    greedy = [connect() for _ in range(6)]
    other = connect()
    for peer in greedy:
        peer.sock.sendall(requests(MANY))
    turn_until(server, lambda: all(peer.connection.holds_frames for peer in greedy))
    for number in range(10):
        other.sock.sendall(api_versions(number))
        server.turn()
        server.turn()  # other responses may still be unsent
        assert other.received_ids() == list(range(number + 1))


def test_remaining_requests_are_served_although_new_ones_fill_each_turn(
    server: Server, connect: Connect
) -> None:
    greedy, others = connect(), [connect() for _ in range(2 * SLICES_PER_TURN)]
    greedy.sock.sendall(requests(MANY))
    turn_until(server, lambda: greedy.connection.holds_frames)
    before = greedy.served
    for _ in range(5 * SLICES_PER_TURN):
        for other in others:
            other.sock.sendall(requests(REQUESTS_PER_SLICE))
        server.turn()
    assert greedy.served >= before + REQUESTS_PER_SLICE


def test_a_sliced_request_blocks_later_ones_of_its_connection(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later requests are served in order after its response."""
    peer, other = connect(), connect()
    serve, begun = server.node.frame, []

    def begin(pending: PendingResponse, *arguments: Any) -> None:
        pending.connection.mute()
        begun.append((pending, arguments))

    monkeypatch.setattr(server.node, "frame", begin)
    peer.sock.sendall(requests(3))
    turn_until(server, lambda: bool(begun))
    monkeypatch.setattr(server.node, "frame", serve)
    other.sock.sendall(requests(3))
    turn_until(server, lambda: len(other.received_ids()) == 3)
    assert (peer.received_ids(), len(begun), len(peer.connection.responses)) == ([], 1, 1)
    [(pending, arguments)] = begun
    serve(pending, *arguments)
    peer.connection.unmute()
    turn_until(server, lambda: len(peer.received_ids()) == 3)
    assert peer.received_ids() == [0, 1, 2]


def test_a_socket_reported_twice_in_a_turn_is_served_once(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that an earlier turn did not reach is read first, once."""
    peer, begun = connect(), []

    def begin(pending: PendingResponse, *_: Any) -> None:
        pending.connection.mute()
        begun.append(pending)

    monkeypatch.setattr(server.node, "frame", begin)
    peer.sock.sendall(requests(3))
    peer.connection.is_queued = True
    server.unread.append(peer.connection)
    turn_until(server, lambda: bool(begun))
    assert len(begun) == 1


def test_a_muted_connection_is_not_read_before_its_socket_is_unwatched(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that has time for only one dirty connection leaves the muted one watched and dirty."""
    other, peer = connect(), connect()
    turn_until(server, lambda: not server.dirty)
    serve = server.node.frame
    begun: list[PendingResponse] = []

    def begin(pending: PendingResponse, *arguments: Any) -> None:
        if pending.connection is peer.connection:
            pending.connection.mute()
            begun.append(pending)
        else:
            serve(pending, *arguments)

    monkeypatch.setattr(server.node, "frame", begin)
    monkeypatch.setattr(loop, "SENDS_NS", -(1 << 40))
    other.connection.mark_dirty()
    peer.sock.sendall(requests(1))
    turn_until(server, lambda: bool(begun))
    assert peer.connection in server.dirty
    peer.sock.sendall(requests(1))
    other.connection.mark_dirty()
    turn_until(server, lambda: not server.dirty)
    assert len(begun) == 1


def test_batches_of_remaining_requests_are_written_unchanged(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a large frame follows small ones that wait for their turn."""
    monkeypatch.setattr(connections, "REQUESTS_PER_CLOCK_READ", 1)
    peer = connect()
    large = produce(MANY, b"z" * 2 * connections.SMALL_FRAME)
    sent = b"".join([produce(number, b"a" * number) for number in range(MANY)])
    peer.sock.sendall(sent + large[:1000])
    turn_until(server, lambda: peer.connection.holds_frames)
    turn_until(server, lambda: len(peer.received_ids()) == MANY)
    peer.sock.sendall(large[1000:])
    turn_until(server, lambda: len(peer.received_ids()) > MANY)
    assert peer.received_ids() == list(range(MANY + 1))
    assert server.node.replica_manager.by_log["demo", 0].end == MANY + 1


def test_responses_beyond_the_time_limit_are_sent_in_the_next_turn(
    server: Server, connect: Connect
) -> None:
    peers = [connect() for _ in range(40)]
    for peer in peers:
        peer.sock.sendall(api_versions(3))
    server.turn()
    assert 0 < len([peer for peer in peers if peer.received_ids()]) < len(peers)
    for _ in peers:
        if not all(peer.received_ids() for peer in peers):
            server.turn()
    assert all(peer.received_ids() == [3] for peer in peers)
