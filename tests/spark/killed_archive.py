"""`python -m tests.spark.killed_archive WHERE …`: archive, and be killed in the second batch.

The JVM of Spark ends when the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from kraftlog.spark.lake.table import ArchiveTable
from kraftlog.spark.pipelines.archive import run

if TYPE_CHECKING:
    from collections.abc import Callable


def killed_in_second_batch(commit: Callable[..., None], where: str) -> Callable[..., None]:
    calls = 0

    def call(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 and where == "before the commit":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(*arguments)
        if calls == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    return call


if __name__ == "__main__":
    setattr(ArchiveTable, "commit", killed_in_second_batch(ArchiveTable.commit, sys.argv[1]))  # noqa: B010 - mypy allows it so
    sys.exit(run(sys.argv[2:]))
