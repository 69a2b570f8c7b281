"""Runs the nodes of a local cluster, a process each, until Ctrl-C or SIGTERM.

Nodes have process groups of their own, so that a Ctrl-C reaches this process alone, which stops
them in order. The standard input of each is a pipe that only this process writes to: a node stops
when it ends, however this process ends. Their output lines are logged with the node in front.
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
STOP_LIMIT_S = 30
READ_SIZE = 1 << 16
FAILED, KILLED = 1, 130


def python_command(*words: str) -> list[str]:
    """`kraftlog WORDS…` for a process of its own."""
    # The current directory may hold modules with the names of Python's own.
    safe = [] if sys.path[0] == os.getcwd() else ["-P"]
    return [sys.executable, *safe, "-m", "kraftlog", *words]


class NodeProcess:
    """A node and its process."""

    def __init__(self, node: LocalNode, lifeline: int) -> None:
        self.node = node
        self.is_ready = False
        self.is_stopping = False
        #: None while it runs; negative: the signal that ended it.
        self.code: int | None = None
        self._line = b""
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
                *whole, self._line = (self._line + data).split(b"\n")
                lines += whole
        except BlockingIOError:
            pass
        if self.code is not None and self._line:
            lines.append(self._line)
            self._line = b""
        self.is_ready = self.is_ready or any(line.startswith(READY) for line in lines)
        return [line.decode(errors="replace") for line in lines if not line.startswith(READY)]

    def has_ended(self) -> bool:
        """Whether it has ended since the last call."""
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
        """Ask it to stop, without waiting for its controlled shutdown if `at_once`.

        SIGCONT comes last, because a paused process does not handle the others.
        """
        self.is_stopping = True
        self.signal(signal.SIGTERM)
        if at_once:
            self.signal(signal.SIGINT)
        self.signal(signal.SIGCONT)


class Supervisor:
    """Starts the nodes at once, and stops them: brokers first, then controllers one by one."""

    def __init__(self, nodes: Sequence[LocalNode], on_ready: Callable[[list[int]], None]) -> None:
        self._nodes = nodes
        self._on_ready = on_ready
        self.processes: list[NodeProcess] = []
        self._signals = 0
        #: Whether all nodes were ready once, and whether something went wrong.
        self._was_ready = self._has_failed = False
        self._is_stopping = self._has_killed = False
        self._kill_at_s: float | None = None
        self._poll = select.poll()
        controllers = [node for node in nodes if node.controller]
        self._majority = len(controllers) // 2 + 1

    def run(self) -> int:
        """Run until all nodes have ended; the exit code."""
        self._wakeup = self._catch_signals()
        # The write end stays open as long as this process lives, and in no other.
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
        """Wait for a line, a signal or an end, and act on it."""
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
                self._note_end(process)
            elif process.output in ready:
                self._write_lines(process)
        if not self._was_ready and all(process.is_ready for process in self.processes):
            self._was_ready = True
            self._on_ready([process.pid for process in self.processes])
        self._continue_stopping()

    def _write_lines(self, process: NodeProcess) -> None:
        for line in process.read():
            log_line(f"node {process.node.id}: {line}")

    def _note_end(self, process: NodeProcess) -> None:
        """Log the end of a node that was not stopped by this process, or that has failed."""
        code = process.code
        assert code is not None
        if process.is_stopping and code in {0, -signal.SIGTERM, -signal.SIGINT}:
            return
        if self._has_killed and code == -signal.SIGKILL:
            return
        self._has_failed = self._has_failed or code != 0
        how = "stopped"
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by {_name(-code)}"
        line = f"kraftlog: node {process.node.id} (pid {process.pid}) {how}"
        if not (self._was_ready or self._is_stopping):
            self._has_failed = True
            log_line(f"{line} before the cluster was ready: the other nodes are stopped")
            self._is_stopping = True
        elif self._is_stopping:
            log_line(line)
        else:
            left = len(self._running())
            log_line(
                f"{line}; {left} of {len(self.processes)} nodes still run. "
                f"To start it again: kraftlog start {process.node.file}"
            )

    def _continue_stopping(self) -> None:
        """Stop the next nodes once those before them have ended."""
        self._is_stopping = self._is_stopping or self._signals > 0
        if not self._is_stopping:
            return
        is_late = self._kill_at_s is not None and self._kill_at_s <= time.monotonic()  # noqa: TID251 - as above
        if self._signals > 1 or is_late:
            if is_late:
                self._has_failed = True
                log_line(f"kraftlog: nodes that do not stop within {STOP_LIMIT_S} s are killed")
            self._kill_at_s = None
            self._has_killed = True
            self._signal_all(signal.SIGKILL)
            return
        running = self._running()
        if any(process.is_stopping for process in running):
            return
        self._stop_some(running)
        self._kill_at_s = time.monotonic() + STOP_LIMIT_S  # noqa: TID251 - this is a host

    def _stop_some(self, running: Sequence[NodeProcess]) -> None:
        """Stop brokers, then one controller after the other.

        So each can hand over its leadership. Without a quorum none can: then all stop at once.
        """
        brokers = [process for process in running if not process.node.controller]
        has_quorum = self._was_ready and len(running) - len(brokers) >= self._majority
        if has_quorum:
            running = brokers or running[-1:]
        for process in running:
            process.stop(at_once=not has_quorum)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
