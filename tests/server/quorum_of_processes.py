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
DIRECTORY_IDS = {i: uuid_text(bytes([i]) * 16) for i in CONTROLLERS}

#: `quorum` is the line that sets the static voters or the bootstrap servers.
CONTROLLER_FILE = """\
process.roles=controller
node.id={node_id}
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{quorum}
log.dirs={data}
"""
BROKER_FILE = """\
process.roles=broker
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{quorum}
log.dirs={data}
"""


class Quorum:
    """The processes of a quorum; `nodes` has the running ones, by node id."""

    def __init__(
        self,
        folder: Path,
        settings: str = "",
        *,
        dynamic: bool = False,
        all_vote: bool = False,
        formatted: bool = True,
        module: str = "kraftlog",
    ) -> None:
        """Write the files of the nodes, and format their directories.

        Every node gets the `settings` in its file and runs the program `module`. With `dynamic`,
        the voters are in the log and not in the files: the first controller or, with `all_vote`,
        all three. Nodes that are not `formatted` start with --bootstrap on empty directories.
        """
        self.folder = folder
        self.module = module
        self.settings = settings
        self._is_dynamic = dynamic
        self.arguments = () if formatted else ("--bootstrap",)
        self.nodes: dict[int, NodeProcess] = {}
        ids = (*CONTROLLERS, BROKER)
        self.ports = ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        voters = ",".join([f"{i}@127.0.0.1:{ports[i]}" for i in CONTROLLERS])
        self._quorum = f"controller.quorum.voters={voters}"
        if dynamic:
            initial = CONTROLLERS if all_vote else CONTROLLERS[:1]
            servers = ",".join([f"127.0.0.1:{ports[i]}" for i in initial])
            self._quorum = f"controller.quorum.bootstrap.servers={servers}"
        for node_id in ids:
            template = BROKER_FILE if node_id == BROKER else CONTROLLER_FILE
            text = template.format(
                node_id=node_id,
                port=ports[node_id],
                quorum=self._quorum,
                data=self.data(node_id),
            )
            (folder / f"{node_id}.properties").write_text(text + settings)
            is_first = node_id == CONTROLLERS[0]
            options = ["--standalone" if is_first else "--no-initial-controllers"]
            if all_vote and node_id != BROKER:
                voters = ",".join(
                    [f"{i}@127.0.0.1:{ports[i]}:{DIRECTORY_IDS[i]}" for i in CONTROLLERS]
                )
                options = ["--initial-controllers", voters]
            if formatted:
                format_node(self.file(node_id), *(options if dynamic else []))

    def add(self, *node_ids: int, template: str = CONTROLLER_FILE) -> None:
        """Format and start more nodes, which know the same controllers as the others."""
        self.prepare(*node_ids, template=template)
        self.start(*node_ids)

    def prepare(self, *node_ids: int, template: str = CONTROLLER_FILE) -> None:
        """Write the files of more nodes and format their directories."""
        for node_id, port in zip(node_ids, free_ports(len(node_ids)), strict=True):
            self.ports[node_id] = port
            text = template.format(
                node_id=node_id, port=port, quorum=self._quorum, data=self.data(node_id)
            )
            (self.folder / f"{node_id}.properties").write_text(text + self.settings)
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
        """Change the port in the file of a stopped node; return the new address."""
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
            node.kill_if_running()

    @property
    def address(self) -> str:
        """The address of the broker's listener."""
        return self.nodes[BROKER].address

    @property
    def servers(self) -> str:
        return self.address


def format_node(file: str, *options: str, cluster_id: str = CLUSTER_ID) -> None:
    command = [sys.executable, "-m", "kraftlog", "format", "-t", cluster_id, "-c", file, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ})
