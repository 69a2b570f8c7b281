"""Nodes in processes, each a broker and a controller; the voters can change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kraftlog.types import uuid_text
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import format_node

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={known}
log.dirs={data}
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
default.replication.factor={count}
min.insync.replicas=2
"""


class Machines:
    """`nodes` are the running processes, by id; the nodes `first` are the initial voters.

    The nodes `later` are added during the test. Their addresses are known from the beginning, as a
    client that finds no broker goes back to the addresses that it was started with.
    """

    def __init__(
        self,
        folder: Path,
        *first: int,
        later: tuple[int, ...] = (),
        settings: str = "",
        module: str = "kraftlog",
    ) -> None:
        self.folder = folder
        self.nodes: dict[int, NodeProcess] = {}
        self._settings, self._module, self._count = settings, module, len(first)
        #: Addresses of the controllers.
        self._controllers: dict[int, str] = {}
        #: The broker's and the controller's port of each node that is added later.
        self._later = {node_id: free_ports(2) for node_id in later}
        ports = self._assign_ports(*first)
        voters = ",".join(
            [f"{i}@{self._controllers[i]}:{uuid_text(bytes([i]) * 16)}" for i in first]
        )
        for node_id in first:
            self._write(node_id, ports[node_id])
            format_node(self.file(node_id), "--initial-controllers", voters)
        # All start together, as a node is ready only once a leader is elected.
        with ThreadPoolExecutor(len(first)) as pool:
            list(pool.map(self._start, first))

    def add(self, node_id: int) -> None:
        """Format and start a node that is no voter yet."""
        port, controller_port = self._later.pop(node_id, None) or free_ports(2)
        self._controllers[node_id] = f"127.0.0.1:{controller_port}"
        self._write(node_id, port)
        format_node(self.file(node_id), "--no-initial-controllers")
        self._start(node_id)

    def kill(self, node_id: int) -> None:
        self.nodes.pop(node_id).kill()
        del self._controllers[node_id]

    def end(self) -> None:
        for node in self.nodes.values():
            node.kill_if_running()

    def file(self, node_id: int) -> str:
        return str(self.folder / f"{node_id}.properties")

    @property
    def servers(self) -> str:
        """The addresses of the running brokers, and of those that are still to be added."""
        later = [f"127.0.0.1:{port}" for port, _ in self._later.values()]
        return ",".join([*(node.address for node in self.nodes.values()), *later])

    def _assign_ports(self, *node_ids: int) -> dict[int, int]:
        """The port of each broker."""
        ports = free_ports(2 * len(node_ids))
        for node_id, port in zip(node_ids, ports[len(node_ids) :], strict=True):
            self._controllers[node_id] = f"127.0.0.1:{port}"
        return dict(zip(node_ids, ports, strict=False))

    def _write(self, node_id: int, port: int) -> None:
        text = FILE.format(
            node_id=node_id,
            port=port,
            controller=self._controllers[node_id].rpartition(":")[2],
            known=",".join(self._controllers.values()),
            data=self.folder / f"data-{node_id}",
            count=self._count,
        )
        (self.folder / f"{node_id}.properties").write_text(text + self._settings)

    def _start(self, node_id: int) -> None:
        errors = str(self.folder / f"errors-{node_id}.txt")
        self.nodes[node_id] = NodeProcess(
            None, self.file(node_id), errors=errors, module=self._module, topics={}
        )
