"""The metadata log is flushed in the data logs' I/O thread, so it waits for their disk."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.runner",
    source="files, self.logs, io_threads.quorum, self",
    replacement="files, self.logs, io_threads.data, self",
    test="tests/runner/test_io_threads.py::test_topics_are_created_and_deleted_during_a_hanging_flush",
)
