"""Three controllers and a broker in their own processes, formatted and started as users do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from kraftlog.types import uuid_text
from tests.ports import free_ports
from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLERS = (1, 2, 3)
BROKER = 4
#: Directory ids of the controllers, for formatting with initial voters.
DIRECTORIES = {i: uuid_text(bytes([i]) * 16) for i in CONTROLLERS}

CONTROLLER_FILE = """\
process.roles=controller
node.id={node_id}
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{known}
log.dirs={data}
"""
BROKER_FILE = """\
process.roles=broker
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{known}
log.dirs={data}
"""


class Quorum:
    """The processes of a quorum; `nodes` are those that run, by id."""

    def __init__(
        self,
        folder: Path,
        more: str = "",
        *,
        dynamic: bool = False,
        all_vote: bool = False,
        formatted: bool = True,
        module: str = "kraftlog",
    ) -> None:
        """Write the files of the nodes, and format their directories.

        `more` are settings of every node, and `module` is the program that they run. With `dynamic`
        only the log has the voters: the first controller, or all with `all_vote`. Nodes that are
        not `formatted` start with --bootstrap on empty directories.
        """
        self.folder = folder
        self.module = module
        self.more = more
        self._is_dynamic = dynamic
        self.arguments = () if formatted else ("--bootstrap",)
        self.nodes: dict[int, NodeProcess] = {}
        ids = (*CONTROLLERS, BROKER)
        self.ports = ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        voters = ",".join([f"{i}@127.0.0.1:{ports[i]}" for i in CONTROLLERS])
        self._known = known = f"controller.quorum.voters={voters}"
        if dynamic:
            first = CONTROLLERS if all_vote else CONTROLLERS[:1]
            servers = ",".join([f"127.0.0.1:{ports[i]}" for i in first])
            self._known = known = f"controller.quorum.bootstrap.servers={servers}"
        for node_id in ids:
            template = BROKER_FILE if node_id == BROKER else CONTROLLER_FILE
            text = template.format(
                node_id=node_id, port=ports[node_id], known=known, data=self.data(node_id)
            )
            (folder / f"{node_id}.properties").write_text(text + more)
            how = ["--standalone"] if node_id == CONTROLLERS[0] else ["--no-initial-controllers"]
            if all_vote and node_id != BROKER:
                voters = ",".join(
                    [f"{i}@127.0.0.1:{ports[i]}:{DIRECTORIES[i]}" for i in CONTROLLERS]
                )
                how = ["--initial-controllers", voters]
            if formatted:
                format_node(self.file(node_id), *(how if dynamic else []))

    def add(self, *node_ids: int, template: str = CONTROLLER_FILE) -> None:
        """Format and start more nodes, which know the same controllers as the others."""
        self.prepare(*node_ids, template=template)
        self.start(*node_ids)

    def prepare(self, *node_ids: int, template: str = CONTROLLER_FILE) -> None:
        """Write the files of more nodes and format their directories."""
        for node_id, port in zip(node_ids, free_ports(len(node_ids)), strict=True):
            self.ports[node_id] = port
            text = template.format(
                node_id=node_id, port=port, known=self._known, data=self.data(node_id)
            )
            (self.folder / f"{node_id}.properties").write_text(text + self.more)
            format_node(
                self.file(node_id), *(["--no-initial-controllers"] if self._is_dynamic else [])
            )

    def file(self, node_id: int) -> str:
        return str(self.folder / f"{node_id}.properties")

    def data(self, node_id: int) -> str:
        return str(self.folder / f"data-{node_id}")

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            errors = str(self.folder / f"errors-{node_id}.txt")
            self.nodes[node_id] = NodeProcess(
                None,
                self.file(node_id),
                *self.arguments,
                errors=errors,
                module=self.module,
                topics={},
            )

    def move(self, node_id: int) -> str:
        """Change the port in a node's file; return the new address."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        file = self.folder / f"{node_id}.properties"
        text = re.sub(r"(?m)^(listeners=\w+://).*", rf"\g<1>{address}", file.read_text())
        file.write_text(text)
        return address

    def move_all(self) -> None:
        """Change the ports of all controllers in all files."""
        moved = {f"127.0.0.1:{self.ports[i]}": self.move(i) for i in CONTROLLERS}
        for node_id in self.ports:
            file = self.folder / f"{node_id}.properties"
            text = file.read_text()
            for old, new in moved.items():
                text = text.replace(old, new)
            file.write_text(text)

    def kill(self, node_id: int) -> None:
        self.nodes.pop(node_id).kill()

    def end(self) -> None:
        for node in self.nodes.values():
            node.make_sure_it_is_gone()

    @property
    def address(self) -> str:
        return self.nodes[BROKER].address

    @property
    def servers(self) -> str:
        return self.address


def format_node(file: str, *how: str, cluster_id: str = CLUSTER_ID) -> None:
    command = [sys.executable, "-m", "kraftlog", "format", "-t", cluster_id, "-c", file, *how]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ})
