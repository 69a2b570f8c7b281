"""A follower that hears from its leader grants pre-votes (P2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="return not core.role.has_live_leader(core)",
    replacement="return True",
    scenario="cut-off-follower",
    seed=1,
)
