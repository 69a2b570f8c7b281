"""A reassignment that has reached its target does not end (R6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="        append_voters(core, leader, voters.replace(targets=None))  # R6",
    replacement="        return",
    scenario="mixture",
    seed=2,
)
