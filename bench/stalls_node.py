"""A node that notes its longest turn, for `bench.stalls`: `python -m bench.stalls_node start …`.

The note is a file in memory that both processes see: processor time in nanoseconds, and the cause.
Whoever writes zeros there begins again.
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
    """Measures every turn on the processor, whatever else runs on the machine."""

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
