"""The voters of an installed snapshot are ignored (R1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        self.voters = VoterHistory(voters)",
    replacement="        self.voters = self.voters",
    scenario="snapshot-install",
    seed=3,
)
