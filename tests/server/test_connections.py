"""A connection sends file slices, limits unsent responses, and releases its files at its end."""

from __future__ import annotations

import gc
import socket
import struct
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.request_latency import RequestLatency
from kraftlog.runner.logs import FileSlice
from kraftlog.server import connections
from kraftlog.server.connections import COPY_SLICE, MAX_FIRST_CAPACITY, Arena, Connection
from kraftlog.server.files import OsFiles
from kraftlog.server.memory import ClientMemory
from kraftlog.server.turns import TurnClock
from kraftlog.storage.disk import Handle, HandleCache
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.node.frame_client import FrameClient, configured_host, make_host
from tests.node.test_requests import fetch, values_in
from tests.server.raw import frame, produce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.virtual_host import VirtualHost

LARGE = 8 << 20
SMALL = COPY_SLICE


class ConnectionEnds:
    """A connection of the node, the peer's socket, and a file to send."""

    def __init__(self, folder: Path) -> None:
        path = folder / "log"
        path.write_bytes(bytes(LARGE))
        self.files = OsFiles()
        self.handle = Handle(HandleCache(self.files, 4), str(path))
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.connection = Connection(
            ours, "peer", 1 << 20, RequestLatency(), TurnClock(lambda: 0), ClientMemory()
        )

    def respond(self, *sizes: int) -> None:
        """Add a response that consists of file slices, each from the start of the file."""
        pending = PendingResponse(self.connection)
        self.connection.responses.append(pending)
        slices = [FileSlice(self.files, self.handle, 0, size) for size in sizes]
        pending.pieces = [b"head", *slices]
        self.connection.ready(pending)

    def read_all(self, count: int) -> int:
        """The bytes that the peer receives while the connection sends."""
        received = 0
        while received < count:
            self.connection.send()
            received += len(self.peer.recv(1 << 20))
        return received


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ConnectionEnds]:
    pair = ConnectionEnds(tmp_path)
    yield pair
    pair.connection.close()
    pair.peer.close()
    pair.handle.release()


def test_large_and_small_slices_arrive_complete(pair: ConnectionEnds) -> None:
    pair.respond(SMALL, LARGE, 100)
    pair.respond(LARGE)
    assert pair.handle.pins == 4
    total = SMALL + 2 * LARGE + 100 + 2 * len(b"head")
    assert pair.connection.unsent == total
    assert pair.read_all(total) == total
    assert (pair.handle.pins, pair.connection.unsent) == (0, 0)


def test_closing_during_a_response_releases_everything(pair: ConnectionEnds) -> None:
    pair.respond(LARGE, SMALL)
    pair.respond(SMALL)
    pair.connection.send()
    assert 0 < pair.connection.slice_sent < LARGE
    pair.respond(SMALL)
    pair.connection.close()
    assert pair.handle.pins == 0
    pair.respond(SMALL)
    assert pair.handle.pins == 0


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_truncated_file_closes_the_connection(pair: ConnectionEnds, size: int) -> None:
    pair.respond(size, SMALL)
    pair.files.truncate(pair.handle.use(), 10)
    with pytest.raises(ConnectionResetError, match="shorter"):
        pair.read_all(size)
    pair.connection.close()
    assert pair.handle.pins == 0


def test_a_file_that_cannot_be_opened_closes_the_connection(
    pair: ConnectionEnds, tmp_path: Path
) -> None:
    (tmp_path / "log").unlink()
    pair.respond(SMALL)
    with pytest.raises(FileNotFoundError):
        pair.connection.send()
    pair.connection.close()
    assert pair.handle.pins == 0


def test_small_slices_are_read_when_they_are_sent(pair: ConnectionEnds) -> None:
    for _ in range(1000):
        pair.respond(SMALL)
    pair.connection.send()
    assert pair.handle.pins > 900


def test_requests_wait_while_responses_are_not_received(
    pair: ConnectionEnds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a limit of unsent response bytes, further requests wait undecoded."""
    monkeypatch.setattr(connections, "MAX_UNSENT", 100_000)
    host = make_host(wide=100)
    request = MetadataRequest(topics=None)
    requests = [frame(number, ApiKey.METADATA, request) for number in range(1000)]
    pair.peer.sendall(b"".join(requests))
    connection, arena = pair.connection, Arena()
    connection.receive(arena, host.node, host.now)
    response_bytes = connection.unsent // len(connection.responses)
    assert 100_000 <= connection.unsent < 100_000 + response_bytes
    assert connection.holds_frames

    received = bytearray()
    while len(received) < 1000 * response_bytes:
        connection.send()
        received += pair.peer.recv(1 << 20)
        if not connection.is_reading_paused() and connection.holds_frames:
            arena.used = 0
            connection.serve_rest(arena, host.node, host.now)
    starts = range(0, len(received), response_bytes)
    correlation_ids = [struct.unpack_from(">i", received, start + 4)[0] for start in starts]
    assert correlation_ids == list(range(1000))
    assert not connection.holds_frames


def send_while_unflushed(host: VirtualHost, arena: Arena, sent: bytes) -> None:
    """Send input on a new connection, and run turns while the disk has not flushed yet."""
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        peer.setblocking(False)
        connection = Connection(
            ours, "peer", 1 << 30, RequestLatency(), TurnClock(lambda: 0), ClientMemory()
        )
        unsent = memoryview(sent)
        while unsent:
            unsent = unsent[peer.send(unsent) :]
            with suppress(BlockingIOError):
                while True:
                    connection.receive(arena, host.node, host.now)
                    host.one_turn()
                    arena.clear()


def test_a_large_buffer_is_reused_while_its_batch_is_flushed() -> None:
    """The frame of another client needs more space than the buffer has."""
    host = configured_host(flush_messages=1, max_message_bytes=4 * MAX_FIRST_CAPACITY)
    arena = Arena()
    values = [b"a" * (MAX_FIRST_CAPACITY - 1000), b"b" * (3 * MAX_FIRST_CAPACITY)]
    for number, value in enumerate(values):
        send_while_unflushed(host, arena, produce(number, value))
    partition = host.node.replica_manager.by_log["demo", 0]
    assert (partition.end, partition.written_end) == (2, 0)
    assert [append.buffers for append in partition.unwritten] == [[], []]
    host.turn()
    reader = FrameClient(host)
    for offset, value in enumerate(values):
        assert values_in(reader.ask(ApiKey.FETCH, 12, fetch(offset))) == [value]


@pytest.mark.parametrize(
    "size", [100_000, 600_000, 1_000_000, MAX_FIRST_CAPACITY, MAX_FIRST_CAPACITY - 1000]
)
@pytest.mark.parametrize("received", [65_536, 100_000, 270_000])
def test_the_grown_buffer_of_a_large_frame_is_lent_again(size: int, received: int) -> None:
    """Buffers of a capacity that is never lent would fill the pool, without any use."""
    arena, used = Arena(), []
    for _ in range(2):
        buffer = arena.lend(size, min(received, size))
        while len(buffer) < size:
            grown = arena.take(arena.next_capacity(len(buffer), size))
            arena.give_back(buffer)
            buffer = grown
        arena.give_back(buffer)
        arena.clear()
        used.append(buffer)
    assert used[0] is used[1]


def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    """There are no reference cycles, even with request templates."""
    host = make_host(demo=1)
    ours, peer = socket.socketpair()
    connection = Connection(
        ours, "peer", 1 << 20, RequestLatency(), TurnClock(lambda: 0), ClientMemory()
    )
    with peer:
        for number in range(2):
            peer.sendall(produce(number, b"value"))
            connection.receive(Arena(), host.node, host.now)
            host.turn()
            connection.send()
        assert connection.request_templates is not None
        connection.close()
    reference = weakref.ref(connection)
    gc.disable()
    try:
        del connection
        assert reference() is None
    finally:
        gc.enable()


def test_small_slices_are_read_at_once_if_too_many_files_are_pinned(pair: ConnectionEnds) -> None:
    """Otherwise responses that no client receives would use up the descriptors."""
    others = [Handle(pair.handle._cache, pair.handle.path) for _ in range(4)]
    for other in others:
        other.pin()
    pair.respond(SMALL, LARGE)
    assert pair.handle.pins == 1
    total = SMALL + LARGE + len(b"head")
    assert pair.connection.unsent - pair.connection.in_files == SMALL + len(b"head")
    assert pair.read_all(total) == total
    assert (pair.handle.pins, pair.connection.unsent, pair.connection.in_files) == (0, 0, 0)
    for other in others:
        other.unpin()
        other.release()
