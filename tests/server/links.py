"""The links between nodes on one machine, each of which can be cut in one direction or both.

A node that is started as `tests.server.with_links` connects to the other nodes through proxies in
this process. A proxy holds back the bytes sent over a cut link, which TCP would retransmit, and
delivers them once the link is restored; connections that are opened meanwhile get no response.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.server.machines import Machines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: The environment variable with the path of a JSON file: node -> port of a peer -> proxy's port.
LINKS = "KRAFTLOG_TEST_LINKS"
PIECE_BYTES = 1 << 16


class Links:
    """Proxies for each pair of nodes; `close` ends them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ports: dict[int, dict[int, int]] = {}
        #: (sender, receiver) -> an event that is set unless the link is cut in this direction.
        self._gates: dict[tuple[int, int], threading.Event] = {}
        self._sockets: list[socket.socket] = []
        self._is_closed = False

    def add(self, target: int, port: int, sources: Iterable[int]) -> None:
        """Put proxies in front of a port of the target node, one for each source node."""
        for source in sources:
            server = socket.create_server(("127.0.0.1", 0))
            self._sockets.append(server)
            self._ports.setdefault(source, {})[port] = server.getsockname()[1]
            for pair in ((source, target), (target, source)):
                self._gates.setdefault(pair, threading.Event()).set()
            self._run(self._accept, server, source, target, port)

    def write(self) -> None:
        self.path.write_text(json.dumps(self._ports))

    def cut(self, *pairs: tuple[int, int]) -> None:
        """No byte gets from the first to the second of each pair."""
        for pair in pairs:
            self._gates[pair].clear()

    def isolate(self, node: int) -> None:
        self.cut(*[pair for pair in self._gates if node in pair])

    def restore(self) -> None:
        for gate in self._gates.values():
            gate.set()

    def close(self) -> None:
        self._is_closed = True
        self.restore()
        for sock in self._sockets:
            _end(sock)

    def _run(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]  # any method

    def _accept(self, server: socket.socket, source: int, target: int, port: int) -> None:
        while not self._is_closed:
            try:
                inbound, _ = server.accept()
            except OSError:
                return
            self._sockets.append(inbound)
            self._run(self._connect, inbound, source, target, port)

    def _connect(self, inbound: socket.socket, source: int, target: int, port: int) -> None:
        to_target, to_source = self._gates[source, target], self._gates[target, source]
        to_target.wait()
        to_source.wait()
        try:
            outbound = socket.create_connection(("127.0.0.1", port))
        except OSError:
            _end(inbound)
            return
        self._sockets.append(outbound)
        self._run(_forward, inbound, outbound, to_target)
        _forward(outbound, inbound, to_source)


def _forward(source: socket.socket, target: socket.socket, gate: threading.Event) -> None:
    with suppress(OSError):  # either end may go at any time
        while data := source.recv(PIECE_BYTES):
            gate.wait()
            target.sendall(data)
    _end(source)
    _end(target)


def _end(sock: socket.socket) -> None:
    with suppress(OSError):  # it may be closed by the other end
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


class LinkedMachines(Machines):
    """Nodes whose links to each other can be cut; clients reach all of them."""

    def __init__(self, folder: Path, links: Links, *first: int, settings: str) -> None:
        self.links = links
        super().__init__(folder, *first, settings=settings, module="tests.server.with_links")

    def _assign_ports(self, *node_ids: int) -> dict[int, int]:
        ports = super()._assign_ports(*node_ids)
        for node_id in node_ids:
            others = [each for each in node_ids if each != node_id]
            controller = int(self._controllers[node_id].rpartition(":")[2])
            for port in (ports[node_id], controller):
                self.links.add(node_id, port, others)
        self.links.write()
        return ports
