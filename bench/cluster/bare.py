"""The bare server with two followers: what this machine allows for replicated produce."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.ports import free_ports

from bench.beside import frame_client
from bench.beside.machine import cpu_seconds
from bench.beside.peers import Peer
from bench.beside.programs import program
from bench.beside.rows import BARE
from bench.cluster.nodes import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLLOWERS = 2


class BareCluster(Cluster):
    """A leader and its followers, each a process with a file; creating a topic replaces them."""

    def __init__(self, folder: str) -> None:
        self.name = BARE
        self.folder = folder
        self.topics = []
        self.nodes = {}
        self.followers: list[Peer] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        for process in (*self.followers, *self.nodes.values()):
            process.stop(signal.SIGKILL)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Replace the processes by new ones with empty files; the old files stay until the end."""
        assert partitions == 1, "the bare server has one partition"
        self.stop()
        folder = tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)
        [port] = free_ports(1)
        log = os.path.join(folder, "log")
        leader = [program("bare"), str(port), os.path.join(folder, "leader"), str(FOLLOWERS)]
        self.nodes = {0: Peer(BARE, leader, port, log)}
        self.followers = []
        self.first.start()
        frame_client.wait_until_ready(port)
        for number in range(FOLLOWERS):
            file = os.path.join(folder, f"follower-{number}")
            command = [program("bare_follower"), str(port), str(number), file]
            self.followers.append(Peer(BARE, command, port, log))
            self.followers[-1].start()
        frame_client.create_topic(port, name)

    def leader_of(self, topic: str) -> Peer:  # noqa: ARG002 - all topics are the same one
        return self.first

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(each.pid) for each in (*self.nodes.values(), *self.followers))
