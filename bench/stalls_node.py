"""A node that reports its longest turn, for `bench.stalls`: `python -m bench.stalls_node start …`.

The report is a memory-mapped file, shared by both processes: CPU time in nanoseconds, and the
cause. Zeros reset it.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time

from kraftlog.cli import main
from kraftlog.server import loop
from kraftlog.server.turns import TurnClock

#: The environment variable with the path of the file.
NOTE = "KRAFTLOG_BENCH_NOTE"
FORM = struct.Struct("<q56s")


def open_note(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), FORM.size)


class NotingClock(TurnClock):
    """Measures the CPU time of every turn, independent of other processes."""

    def __init__(self) -> None:
        super().__init__()
        self._file = open_note(os.environ[NOTE])
        self._since_ns = 0

    def begin(self) -> int:
        self._since_ns = time.thread_time_ns()
        return super().begin()

    def end(self, cause: str) -> None:
        used_ns = time.thread_time_ns() - self._since_ns
        if used_ns > FORM.unpack(self._file[:])[0]:
            longest = max(self._steps, key=self._steps.__getitem__, default=cause)
            self._file[:] = FORM.pack(used_ns, longest.encode()[:56])
        super().end(cause)


if __name__ == "__main__":
    vars(loop)["TurnClock"] = NotingClock
    sys.exit(main())
