"""A worker process for CPU-bound tasks, because a busy thread would slow down the loop.

A process runs one task: JSON on standard input, the result as JSON on standard output.
`python -m kraftlog.server.worker_process` is that process. It ends if the node dies; the
node's next start removes the incomplete files.
"""

from __future__ import annotations

import os
import sys

from kraftlog.server.io_thread import OsIOThread
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Now

#: Lower priority than the loop.
NICENESS = 10


class OsWorkerProcess:
    """Runs one process per task, one at a time; a thread waits until the process ends."""

    def __init__(self) -> None:
        self._io_thread = OsIOThread("worker", may_fail=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.ready_fd = self._io_thread.ready_fd

    def compact(
        self, task: dict[str, Any], done: Callable[[Any, BaseException | None, Now], None]
    ) -> None:
        """Run `storage.cleaning.clean(files, task)` in a process, then call `done` on the loop."""
        self._io_thread.submit(lambda: self._run(task), done)

    def _run(self, task: dict[str, Any]) -> Any:
        """On the thread: run the process."""
        import json
        import subprocess

        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "kraftlog.server.worker_process"]
        with subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=pipe, stdout=pipe, stderr=pipe
        ) as process:
            self._process = process
            if self._closed:
                process.kill()
            out, errors = process.communicate(json.dumps(task).encode())
        self._process = None
        if process.returncode:
            lines = errors.decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "no output"
            raise ChildProcessError(f"the worker process exited with {process.returncode}: {why}")
        return json.loads(out)

    def deliver(self, now: Now) -> None:
        """On the loop: deliver the results."""
        self._io_thread.deliver(now)

    def close(self) -> None:
        """Kill the process of the task in progress: nothing is lost, the old files stay valid."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        self._io_thread.close()


def main() -> None:
    """Run the task given on standard input; exit at the next read after the node has ended."""
    import json

    from kraftlog.server.files import OsFiles
    from kraftlog.storage.cleaning import clean

    parent = os.getppid()

    class WatchfulFiles(OsFiles):
        """The files of the operating system; a read exits if the node has ended."""

        def pread(self, fd: int, size: int, position: int) -> bytes:
            if os.getppid() != parent:
                sys.exit("the node has ended")
            return super().pread(fd, size, position)

    os.nice(NICENESS)
    result = clean(WatchfulFiles(), json.load(sys.stdin.buffer))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
