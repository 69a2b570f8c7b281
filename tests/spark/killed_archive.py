"""`python -m tests.spark.killed_archive MOMENT …`: an archive pipeline, killed in its second batch.

The JVM of Spark ends once the process that started it has ended.
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

#: When the archive is killed, relative to the table's commit of the second batch.
BEFORE, BETWEEN, AFTER = "before-the-commit", "before-the-dead-letters", "after-the-commit"


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_second_call(commit: Callable[..., None], moment: str) -> Callable[..., None]:
    """The method `commit`, changed so that its second call kills the process."""
    calls = 0

    def call(self: ArchiveTable, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 and moment == BEFORE:
            kill()
        if calls == 2 and moment == BETWEEN:
            # `commit` calls this after it has committed the table.
            self.commit_dead_letters = kill  # type: ignore[method-assign]  # a function will do
        commit(self, *arguments)
        if calls == 2:
            kill()

    return call


if __name__ == "__main__":
    setattr(ArchiveTable, "commit", kill_in_second_call(ArchiveTable.commit, sys.argv[1]))  # noqa: B010 - mypy allows it so
    sys.exit(run(sys.argv[2:]))
