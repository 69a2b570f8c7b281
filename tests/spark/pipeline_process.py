"""Runs a pipeline in a process that a test may kill, together with the JVM and workers of Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.client.waiting import until
from tests.server.node_process import read_line
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


class PipelineProcess:
    """`kraftlog pipeline …` with --json, or another module with the same arguments."""

    def __init__(self, folder: Path, *arguments: str, module: str = "kraftlog pipeline") -> None:
        self._errors = folder / "errors.txt"
        command = [sys.executable, "-m", *module.split(), *arguments]
        with open(self._errors, "ab") as file:
            self._process = subprocess.Popen(
                [*command, "--json", "--master", "local[1]"],
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )

    def __enter__(self) -> PipelineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._session_pids():
            os.kill(pid, signal.SIGKILL)
        self._wait_for_exit()

    def await_event(self, kind: str) -> dict[str, Any]:
        """Wait for the next event of this kind; return it."""
        assert self._process.stdout is not None
        while line := read_line(self._process.stdout):
            event: dict[str, Any] = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"no {kind}: {self.errors()}")

    def kill(self) -> None:
        """Send SIGKILL to the pipeline alone, and wait until the JVM and the workers have ended."""
        self._process.kill()
        until(self._session_pids, [])
        self._wait_for_exit()

    def kill_jvm(self) -> None:
        """Send SIGKILL to Spark's JVM alone."""
        for pid in self._session_pids():
            # A worker may end meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == "java":
                    os.kill(pid, signal.SIGKILL)

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        self._process.send_signal(signal_number)
        return self._wait_for_exit()

    def errors(self) -> str:
        """The standard error of the process until now."""
        return self._errors.read_text()

    def wait(self) -> int:
        """Wait until the pipeline, its JVM and its workers have ended; return the exit code."""
        code = self._wait_for_exit()
        until(self._session_pids, [])
        return code

    def _wait_for_exit(self) -> int:
        self._process.communicate(timeout=LIMIT_S)
        return self._process.returncode

    def _session_pids(self) -> list[int]:
        """The ids of the pipeline's process, its JVM and its workers: those of its session."""
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    state, _, _, session = file.read().rpartition(")")[2].split()[:4]
            except OSError:  # it has ended
                continue
            if int(session) == self._process.pid and state != "Z":
                pids.append(int(pid))
        return pids
