"""A vote is written in the data logs' I/O thread, so it waits for their disk (Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.runner",
    source="            io_threads.quorum,\n            self._metadata_flushes,",
    replacement="            io_threads.data,\n            self._metadata_flushes,",
    test="tests/runner/test_io_threads.py::test_q13_a_vote_is_given_while_the_other_threads_hang",
)
