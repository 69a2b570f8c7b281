"""Runs the nodes of a local cluster, one process each, until Ctrl-C or SIGTERM.

Each node has its own process group, so that Ctrl-C reaches only the supervisor, which stops the
nodes in order. The standard input of the nodes is a pipe whose write end only the supervisor has:
nodes stop when the pipe ends, so that they never outlive the supervisor, even if it is killed. An
output line of a node is logged after `node N: `.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.cli.local_cluster import LocalNode

READY = b"kraftlog ready on "
#: Nodes that have not stopped after this time are killed.
STOP_TIMEOUT_S = 30
READ_SIZE = 1 << 16
FAILED, KILLED = 1, 130


def python_command(*words: str) -> list[str]:
    """The command line that runs `kraftlog WORDS…` with this Python."""
    # -P ignores modules in the current folder, which may have names of Python's own modules.
    safe = [] if sys.path[0] == os.getcwd() else ["-P"]
    return [sys.executable, *safe, "-m", "kraftlog", *words]


class NodeProcess:
    """A node and its process."""

    def __init__(self, node: LocalNode, lifeline: int) -> None:
        self.node = node
        self.is_ready = False
        self.is_stopping = False
        #: The exit code; None while the process runs; negative: the signal that ended it.
        self.code: int | None = None
        self._partial_line = b""
        self.output, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.output, False)
        command = python_command("start", node.file, "--stop-at-eof")
        actions = [(os.POSIX_SPAWN_DUP2, lifeline, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, writer, number) for number in (1, 2)]
        self.pid = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=actions, setpgroup=0
        )
        os.close(writer)

    def read(self) -> list[str]:
        """The new lines of output, without the line that says that the node is ready."""
        lines = []
        try:
            while data := os.read(self.output, READ_SIZE):
                *complete, self._partial_line = (self._partial_line + data).split(b"\n")
                lines += complete
        except BlockingIOError:
            pass
        if self.code is not None and self._partial_line:
            lines.append(self._partial_line)
            self._partial_line = b""
        self.is_ready = self.is_ready or any(line.startswith(READY) for line in lines)
        return [line.decode(errors="replace") for line in lines if not line.startswith(READY)]

    def has_ended(self) -> bool:
        """Whether the process has ended since the last call."""
        if self.code is not None:
            return False
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def stop(self, *, at_once: bool) -> None:
        """Ask the node to stop; with `at_once`, without a controlled shutdown.

        SIGCONT comes last, because a paused process does not handle the others.
        """
        self.is_stopping = True
        self.signal(signal.SIGTERM)
        if at_once:
            self.signal(signal.SIGINT)
        self.signal(signal.SIGCONT)


class Supervisor:
    """Starts all nodes together; stops the brokers first, then the controllers one by one."""

    def __init__(self, nodes: Sequence[LocalNode], on_ready: Callable[[list[int]], None]) -> None:
        self._nodes = nodes
        self._on_ready = on_ready
        self.processes: list[NodeProcess] = []
        self._signals = 0
        #: Whether all nodes have been ready, and whether a node has failed.
        self._was_ready = self._has_failed = False
        self._is_stopping = self._has_killed = False
        self._kill_at_s: float | None = None
        self._poll = select.poll()
        controllers = [node for node in nodes if node.controller]
        self._majority = len(controllers) // 2 + 1

    def run(self) -> int:
        """Run until all nodes have ended; return the exit code."""
        self._wakeup = self._catch_signals()
        # Only this process has the write end, which stays open as long as it lives.
        lifeline, self._lifeline_end = os.pipe2(os.O_CLOEXEC)
        try:
            for node in self._nodes:
                self.processes.append(NodeProcess(node, lifeline))
                self._poll.register(self.processes[-1].output, select.POLLIN)
            os.close(lifeline)
            while self._running():
                self._step()
        finally:
            self._signal_all(signal.SIGKILL)
        if self._signals > 1:
            return KILLED
        return FAILED if self._has_failed else 0

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll.register(reader, select.POLLIN)
        return reader

    def _count_signal(self, *_: object) -> None:
        self._signals += 1

    def _running(self) -> list[NodeProcess]:
        return [process for process in self.processes if process.code is None]

    def _signal_all(self, number: int) -> None:
        for process in self.processes:
            process.signal(number)

    def _step(self) -> None:
        """Wait for output, a signal or the end of a process, and handle it."""
        wait_ms = None
        if self._kill_at_s is not None:
            wait_ms = max(self._kill_at_s - time.monotonic(), 0) * 1000  # noqa: TID251 - this is a host
        ready = {fd for fd, _ in self._poll.poll(wait_ms)}
        if self._wakeup in ready:
            os.read(self._wakeup, READ_SIZE)
        for process in self.processes:
            if process.has_ended():
                self._write_lines(process)
                self._poll.unregister(process.output)
                os.close(process.output)
                self._log_end(process)
            elif process.output in ready:
                self._write_lines(process)
        if not self._was_ready and all(process.is_ready for process in self.processes):
            self._was_ready = True
            self._on_ready([process.pid for process in self.processes])
        self._continue_stopping()

    def _write_lines(self, process: NodeProcess) -> None:
        for line in process.read():
            log_line(f"node {process.node.id}: {line}")

    def _log_end(self, process: NodeProcess) -> None:
        """Log the end of a node, unless the supervisor asked for it; may stop the other nodes."""
        code = process.code
        assert code is not None
        if process.is_stopping and code in {0, -signal.SIGTERM, -signal.SIGINT}:
            return
        if self._has_killed and code == -signal.SIGKILL:
            return
        self._has_failed = self._has_failed or code != 0
        outcome = "stopped"
        if code:
            outcome = (
                f"ended with exit code {code}"
                if code > 0
                else f"was ended by {_signal_name(-code)}"
            )
        line = f"kraftlog: node {process.node.id} (pid {process.pid}) {outcome}"
        if not (self._was_ready or self._is_stopping):
            self._has_failed = True
            log_line(f"{line} before the cluster was ready: the other nodes are stopped")
            self._is_stopping = True
        elif self._is_stopping:
            log_line(line)
        else:
            running_count = len(self._running())
            log_line(
                f"{line}; {running_count} of {len(self.processes)} nodes still run. "
                f"To start it again: kraftlog start {process.node.file}"
            )

    def _continue_stopping(self) -> None:
        """Once stopping: stop the next nodes after the previous ones have ended; kill late ones."""
        self._is_stopping = self._is_stopping or self._signals > 0
        if not self._is_stopping:
            return
        is_late = self._kill_at_s is not None and self._kill_at_s <= time.monotonic()  # noqa: TID251 - as above
        if self._signals > 1 or is_late:
            if is_late:
                self._has_failed = True
                log_line(f"kraftlog: nodes that do not stop within {STOP_TIMEOUT_S} s are killed")
            self._kill_at_s = None
            self._has_killed = True
            self._signal_all(signal.SIGKILL)
            return
        running = self._running()
        if any(process.is_stopping for process in running):
            return
        self._stop_next(running)
        self._kill_at_s = time.monotonic() + STOP_TIMEOUT_S  # noqa: TID251 - this is a host

    def _stop_next(self, running: Sequence[NodeProcess]) -> None:
        """Stop the running brokers or, if there are none left, one controller.

        In this order each can hand over its leadership. Without a quorum none can: then all nodes
        stop at once.
        """
        brokers = [process for process in running if not process.node.controller]
        has_quorum = self._was_ready and len(running) - len(brokers) >= self._majority
        if has_quorum:
            running = brokers or running[-1:]
        for process in running:
            process.stop(at_once=not has_quorum)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
