"""R8, the rule of the first proposals: a vote for somebody who is no voter here is refused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="(vote.candidate) and core.role.has_live_leader(core)",
    replacement="(vote.candidate)",
    scenario="unseen-growth",
    seed=1,
)
