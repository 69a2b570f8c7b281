"""A `Server` in this process, with real sockets, a node on files in memory and a manual clock."""

from __future__ import annotations

import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kraftlog.server.io_thread import OsIOThreads
from kraftlog.server.loop import Server
from kraftlog.server.turns import TurnClock
from kraftlog.server.worker_process import OsWorkerProcess
from kraftlog.wire.apis import BROKER
from tests.server.raw import api_versions
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.server.connections import Connection
    from tests.virtual_host import VirtualHost


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@contextmanager
def hosted(host: VirtualHost, clock: Callable[[], int], **options: Any) -> Iterator[Server]:
    """A server of the host's node, in which no CPU time passes."""
    server = Server(
        OsIOThreads(),
        OsWorkerProcess(),
        max_connections=64,
        turns=TurnClock(clock, lambda: 0),
        **{"max_frame": 1 << 20, **options},
    )
    server.set_node(host.node, host.runner)
    yield server
    server._close_all()
    host.deliver()
    host.runner.close()


def listen(server: Server) -> int:
    """Open a listener for clients; returns its port."""
    port = server.listen("PLAINTEXT", "127.0.0.1", 0, BROKER)
    server.open_client_listeners()
    return port


class Peer:
    """A client's socket and the node's connection to it."""

    def __init__(self, server: Server, port: int) -> None:
        before = set(server.connections)
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.server = server
        server.turn()
        [fd] = set(server.connections) - before
        self.connection: Connection = server.connections[fd]
        self._raw = b""

    @property
    def served(self) -> int:
        """How many of the requests in `connection.rest`, left by an earlier turn, are served."""
        return self.connection.rest_at // len(api_versions(0))

    def received_ids(self) -> list[int]:
        """The correlation ids of the responses that have arrived."""
        self.sock.setblocking(False)
        try:
            while data := self.sock.recv(1 << 20):
                self._raw += data
        except BlockingIOError:
            pass
        correlation_ids, position = [], 0
        while len(self._raw) - position >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._raw, position)
            if len(self._raw) - position < 4 + size:
                break
            correlation_ids.append(correlation_id)
            position += 4 + size
        return correlation_ids


@contextmanager
def peers_of(server: Server) -> Iterator[Callable[[], Peer]]:
    """Yield a function that connects a peer; close all peers at the end."""
    port = listen(server)
    peers: list[Peer] = []

    def connect() -> Peer:
        peers.append(Peer(server, port))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.sock.close()


def turn_until(server: Server, is_done: Callable[[], bool]) -> int:
    """Run turns until `is_done`; return their number."""
    for number in range(1000):
        if is_done():
            return number
        server.turn()
    raise AssertionError("not done after 1000 turns")
