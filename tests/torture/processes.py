"""The nodes under torture: processes that can be killed, paused and started in any order."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from kraftlog.cli import local_cluster
from kraftlog.cli.start import options_of
from tests.ports import free_ports
from tests.server.quorum_of_processes import (
    BROKER,
    BROKER_FILE,
    CONTROLLER_FILE,
    CONTROLLERS,
    format_node,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STANDALONE_FILE = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0
controller.listener.names=CONTROLLER
controller.quorum.voters={node_id}@127.0.0.1:0
log.dirs={data}
"""
#: Short intervals, so that all periodic work happens during a run.
SHORT_INTERVALS = """\
metadata.log.max.record.bytes.between.snapshots=5000
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=100
offsets.topic.num.partitions=3
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=100
log.cleaner.backoff.ms=500
log.segment.delete.delay.ms=500
log.flush.offset.checkpoint.interval.ms=2000
log.flush.start.offset.checkpoint.interval.ms=2000
"""
UNLIMITED = -1


def seconds() -> float:
    """A clock for limits and for the order of events."""
    return time.monotonic_ns() / 1e9


def until(what: str, is_so: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait for an event; the TimeoutError names it."""
    end = seconds() + limit_s
    while not is_so():
        if seconds() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


class Process:
    """A node: its file, its directory, and its process if it runs."""

    def __init__(self, folder: str, node_id: int) -> None:
        self.id = node_id
        self.file = f"{folder}/{node_id}.properties"
        self.data = f"{folder}/data-{node_id}"
        self.output = f"{folder}/output-{node_id}.txt"
        self.errors = f"{folder}/errors-{node_id}.txt"
        self.running: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        self.starts = 0
        #: The exit codes of processes that were not killed.
        self.exit_codes: list[int] = []

    @property
    def pid(self) -> int | None:
        return None if self.running is None else self.running.pid

    def start(self) -> None:
        if self.running is not None:
            return
        self.starts += 1
        command = [sys.executable, "-m", "kraftlog", "start", self.file]
        with open(self.output, "wb") as output, open(self.errors, "ab") as errors:
            errors.write(b"-- start %d\n" % self.starts)
            errors.flush()
            self.running = subprocess.Popen(command, stdout=output, stderr=errors)

    def is_ready(self) -> bool:
        with open(self.output) as output:
            return "kraftlog ready on " in output.read()

    def is_gone(self) -> bool:
        """Whether no process runs; records the exit code of one that has ended without a kill."""
        if self.running is not None and self.running.poll() is not None:
            # A process that gets SIGTERM before it handles signals can't shut down cleanly.
            is_early = self.running.returncode == -signal.SIGTERM and not self.is_ready()
            self.exit_codes.append(0 if is_early else self.running.returncode)
            self.running = None
        return self.running is None

    def kill(self) -> None:
        if not self.is_gone():
            assert self.running is not None
            self.running.kill()
            self.running.wait()
            self.running = None
        self.is_paused = False

    def terminate(self) -> None:
        """Send SIGTERM; `wait` waits for the end."""
        if not self.is_gone():
            assert self.running is not None
            self.running.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        until(f"node {self.id} ends after SIGTERM", self.is_gone)

    def hold(self) -> None:
        if not self.is_gone():
            assert self.running is not None
            self.running.send_signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        if self.is_paused and self.running is not None:
            self.running.send_signal(signal.SIGCONT)
        self.is_paused = False

    def limit_file_size(self, size: int = UNLIMITED) -> None:
        """Limit files to `size` bytes: to the node, the disk is full."""
        if not self.is_gone():
            assert self.running is not None
            _, hard = resource.prlimit(self.running.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.running.pid, resource.RLIMIT_FSIZE, (size, hard))

    def lose_disk(self) -> None:
        """Replace the directory with an empty one, formatted like the old one."""
        shutil.rmtree(self.data)
        format_node(self.file)

    def logged_errors(self) -> list[str]:
        """The first traceback or internal error on standard error, with the lines around it."""
        with open(self.errors, errors="replace") as file:
            lines = file.read().splitlines()
        error_lines = [
            n for n, line in enumerate(lines) if "Traceback" in line or "internal error" in line
        ]
        return ["\n".join(lines[max(0, n - 1) : n + 40]) for n in error_lines[:1]]


#: The kinds of a run: a single node, three controllers and a broker, or three nodes that replicate.
ALONE, QUORUM, CLUSTER = "alone", "quorum", "cluster"


class Nodes:
    """All nodes; `controllers` may be brokers too."""

    def __init__(self, folder: str, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.replicas = 3 if kind == CLUSTER else 1
        self.all: dict[int, Process] = {}
        if kind == CLUSTER:
            self.address = self._format_cluster()
        else:
            self.address = self._format_nodes((*CONTROLLERS, BROKER) if kind == QUORUM else (1,))
        *_, self.broker = self.all.values()
        self.controllers = [
            node for node in self.all.values() if kind != QUORUM or node.id != BROKER
        ]

    def _format_nodes(self, ids: tuple[int, ...]) -> str:
        """Write each node's properties and format it; return the broker's address."""
        ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        voters = ",".join([f"{i}@127.0.0.1:{ports[i]}" for i in ids if i != BROKER])
        for node_id in ids:
            process = self.all[node_id] = Process(self.folder, node_id)
            with open(process.file, "w") as file:
                template = BROKER_FILE if node_id == BROKER else CONTROLLER_FILE
                text = (template if self.kind == QUORUM else STANDALONE_FILE).format(
                    node_id=node_id,
                    port=ports[node_id],
                    data=process.data,
                    known=f"controller.quorum.voters={voters}",
                )
                file.write(text + SHORT_INTERVALS)
            format_node(process.file)
        return f"127.0.0.1:{ports[ids[-1]]}"

    def _format_cluster(self) -> str:
        """Format the nodes as `kraftlog start --nodes 3` does; return the addresses of all."""
        arguments = ["--nodes", "3", "--data", self.folder, "--port", "0"]
        for line in SHORT_INTERVALS.splitlines():
            arguments += ["--override", line]
        plan = local_cluster.plan(options_of(arguments))
        local_cluster.prepare(plan)
        for sock in plan.port_reservations:
            sock.close()
        for node in plan.nodes:
            process = self.all[node.id] = Process(self.folder, node.id)
            process.file, process.data = node.file, node.directory
        return ",".join([node.listener for node in plan.nodes])

    def start(self) -> None:
        for process in self.all.values():
            process.start()

    def revive(self) -> None:
        """Undo all faults: every node runs, is ready and has disk space."""
        for process in self.all.values():
            process.resume()
            process.limit_file_size()

        def all_are_ready() -> bool:
            for process in self.all.values():
                if process.is_gone():
                    process.start()
            return all(process.is_ready() for process in self.all.values())

        until("all nodes are ready", all_are_ready)

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """Stop these nodes in this order, or all, the broker first."""
        chosen = processes or [self.broker, *[c for c in self.controllers if c is not self.broker]]
        for process in chosen:
            process.terminate()
            process.wait()

    def kill_all(self) -> None:
        for process in self.all.values():
            process.kill()


def memory_and_descriptors(pid: int) -> tuple[int, int] | None:
    """Resident bytes and open descriptors of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            pages = int(file.read().split()[1])
        return pages * resource.getpagesize(), len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError, IndexError):
        return None
