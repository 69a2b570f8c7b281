"""A flush of the metadata log waits for the disk of a data log (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.runner",
    source="files, self.logs, io_threads.quorum, self",
    replacement="files, self.logs, io_threads.data, self",
    test="tests/runner/test_io_threads.py::test_topics_are_created_and_deleted_during_a_hanging_flush",
)
