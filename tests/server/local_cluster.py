"""`kraftlog start --nodes N` as a process, and what it prints."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from tests.server.node_process import WITHOUT_RETENTION, read_line
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

#: Columns of the table that the command prints: one row per node.
ROLES, ADDRESS, DIRECTORY, PID = 1, 2, 4, 5


class LocalCluster:
    """A cluster that is ready; `end` kills all its processes."""

    def __init__(self, folder: Path, *arguments: str, nodes: int = 3) -> None:
        self.data = str(folder / "data")
        self.errors = str(folder / "errors.txt")
        #: Nodes that `restart` started: they are not children of the supervisor.
        self.restarted: list[subprocess.Popen[bytes]] = []
        command = [sys.executable, "-m", "kraftlog", "start", "--nodes", str(nodes)]
        command += ["--data", self.data, "--port", "0", "--override", WITHOUT_RETENTION]
        with open(self.errors, "ab") as file:
            self.process = subprocess.Popen(
                [*command, *arguments], bufsize=0, stdout=subprocess.PIPE, stderr=file
            )
        #: The rows of the table by node, and the bootstrap servers.
        self.rows: dict[int, list[str]] = {}
        self.servers = ""
        assert self.process.stdout is not None
        while not self.servers:
            line = read_line(self.process.stdout)
            if not line:
                self.end()
                raise AssertionError(self.output())
            cells = line.split()
            if cells[0].isdecimal():
                self.rows[int(cells[0])] = cells
            elif line.startswith("kraftlog ready on "):
                self.servers = cells[-1]

    def pid(self, node: int) -> int:
        return int(self.rows[node][PID])

    def address(self, node: int) -> str:
        """The address of a node's listener for clients."""
        return self.rows[node][ADDRESS]

    def port(self, node: int) -> int:
        return int(self.address(node).rpartition(":")[2])

    def file(self, node: int) -> str:
        """The path of a node's properties file."""
        return f"{self.data}/node-{node}.properties"

    def restart(self, node: int, module: str = "kraftlog", **environment: str) -> None:
        """Start a node that has ended, and wait until it is ready; `module` is its program."""
        command = [sys.executable, "-m", module, "start", self.file(node)]
        with open(self.errors, "ab") as file:
            started = subprocess.Popen(
                command,
                bufsize=0,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **environment},
            )
        self.restarted.append(started)
        self.rows[node][PID] = str(started.pid)
        assert started.stdout is not None
        line = read_line(started.stdout)
        assert line.startswith("kraftlog ready on "), f"{line}\n{self.output()}"

    def kill(self, node: int, signum: int = signal.SIGKILL) -> None:
        """End a node by SIGKILL or another signal, and wait until it has ended."""
        os.kill(self.pid(node), signum)
        await_end(self.pid(node))
        for started in [process for process in self.restarted if process.pid == self.pid(node)]:
            started.communicate()
            self.restarted.remove(started)

    def pause(self, node: int) -> None:
        os.kill(self.pid(node), signal.SIGSTOP)

    def resume(self, node: int) -> None:
        os.kill(self.pid(node), signal.SIGCONT)

    def await_line(self, text: str) -> None:
        """Wait until standard error contains the text."""
        deadline = Deadline(LIMIT_S)
        while text not in self.output():
            assert not deadline.is_over, self.output()
            deadline.pause(0.01)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Stop all nodes cleanly; return the exit code of the supervisor."""
        for started in self.restarted:
            started.terminate()
            assert started.wait(LIMIT_S) == 0, self.output()
        self.process.send_signal(signum)
        return self.wait()

    def wait(self) -> int:
        """Wait until the supervisor ends; return its exit code."""
        code = self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """Kill all processes; after a second signal the supervisor kills its nodes."""
        for started in self.restarted:
            started.kill()
            started.communicate()
        for signum in (signal.SIGTERM, signal.SIGINT):
            self.process.send_signal(signum)
        self.wait()

    def output(self) -> str:
        """The standard error of the supervisor and all nodes."""
        with open(self.errors) as file:
            return file.read()


def await_end(pid: int) -> None:
    """Wait until a process ends; it need not be a child of this one."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    try:
        assert poll.poll(LIMIT_S * 1000), f"process {pid} has not ended"
    finally:
        os.close(fd)
