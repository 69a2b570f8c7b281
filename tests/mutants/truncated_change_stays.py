"""R1: a truncated voter change stays in force."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.logstate.voters",
    source="kept = tuple([entry for entry in self.entries if entry[0] < end])",
    replacement="kept = self.entries",
    test="tests/raft/test_changes.py::test_r1_a_truncated_change_restores_the_previous_set",
)
