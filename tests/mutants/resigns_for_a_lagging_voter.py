"""R5: a leader hands over to a voter that lacks the end of its log and cannot be elected."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="progress.end_offset >= end for",
    replacement="progress.end_offset >= 0 for",
    scenario="mixture",
    seed=55,
)
