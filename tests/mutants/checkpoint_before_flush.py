"""A checkpoint names a recovery point before its flush has ended (V15)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.storage.log",
    source="        self._flushing = job\n        return job",
    replacement=(
        "        self._flushing = job\n"
        "        self.recovery_point = job.end_offset\n"
        "        return job"
    ),
    test=(
        "tests/runner/test_io_threads.py::"
        "test_a_checkpoint_never_names_a_recovery_point_before_its_flush"
    ),
)
