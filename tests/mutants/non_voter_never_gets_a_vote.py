"""R8, as first proposed: a non-voter never gets a vote."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="(vote.candidate) and core.role.has_live_leader(core)",
    replacement="(vote.candidate)",
    scenario="unseen-growth",
    seed=1,
)
