"""A helper process for what computes for long: a busy thread would cost the loop its speed.

It lives for one task, which comes as JSON on its standard input; what came of it goes out as JSON.
`python -m kraftlog.server.worker_process` is that process. Should the node die, it ends by itself:
the next node begins by removing what it has left half made.
"""

from __future__ import annotations

import os
import sys

from kraftlog.server.io_thread import IOThread
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Now

#: The loop goes first.
NICENESS = 10


class WorkerProcess:
    """Starts a process per task, one at a time; a thread waits for its end."""

    def __init__(self) -> None:
        self._io_thread = IOThread("helper", may_fail=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.ready_fd = self._io_thread.ready_fd

    def compact(
        self, task: dict[str, Any], done: Callable[[Any, BaseException | None, Now], None]
    ) -> None:
        self._io_thread.submit(lambda: self._run(task), done)

    def _run(self, task: dict[str, Any]) -> Any:
        """In the lane."""
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
            out, said = process.communicate(json.dumps(task).encode())
        self._process = None
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "it said nothing"
            raise ChildProcessError(f"a helper ended with {process.returncode}: {why}")
        return json.loads(out)

    def deliver(self, now: Now) -> None:
        """On the loop: tell what has been done since."""
        self._io_thread.deliver(now)

    def close(self) -> None:
        """What is under way is given up; nothing that counts is lost by that."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        self._io_thread.close()


def main() -> None:
    """The helper process."""
    import json

    from kraftlog.server.files import OsFiles
    from kraftlog.storage.cleaning import clean

    parent = os.getppid()

    class WatchfulFiles(OsFiles):
        """Those of the operating system, while there is a node to make something for."""

        def pread(self, fd: int, size: int, position: int) -> bytes:
            if os.getppid() != parent:
                sys.exit("the node is gone")
            return super().pread(fd, size, position)

    os.nice(NICENESS)
    result = clean(WatchfulFiles(), json.load(sys.stdin.buffer))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
