"""A commit acknowledges every pending proposal (Q25)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        while self.proposals and self.proposals[0][0] <= end:",
    replacement="        while self.proposals:",
    scenario="mixture",
    seed=4,
)
