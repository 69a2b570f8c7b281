"""A node that reports its longest turn to a benchmark: `python -m bench.stalls_node start …`.

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
REPORT_VARIABLE = "KRAFTLOG_BENCH_REPORT"
REPORT_FORMAT = struct.Struct("<q56s")


def open_report(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), REPORT_FORMAT.size)


class ReportingClock(TurnClock):
    """Measures the CPU time of every turn, independent of other processes."""

    def __init__(self) -> None:
        super().__init__()
        self._file = open_report(os.environ[REPORT_VARIABLE])
        self._since_ns = 0

    def begin(self) -> int:
        self._since_ns = time.thread_time_ns()
        return super().begin()

    def end(self, cause: str) -> None:
        used_ns = time.thread_time_ns() - self._since_ns
        if used_ns > REPORT_FORMAT.unpack(self._file[:])[0]:
            longest_step = max(self._steps, key=self._steps.__getitem__, default=cause)
            self._file[:] = REPORT_FORMAT.pack(used_ns, longest_step.encode()[:56])
        super().end(cause)


if __name__ == "__main__":
    vars(loop)["TurnClock"] = ReportingClock
    sys.exit(main())
