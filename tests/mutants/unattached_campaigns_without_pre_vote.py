"""A voter without a leader campaigns without a pre-vote (P1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.unattached",
    source="            core.become(quorum.PROSPECTIVE)  # Q9d",
    replacement="            self.on_succession(core, 0)",
    scenario="mixture",
    seed=1,
)
