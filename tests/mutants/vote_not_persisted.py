"""The epoch is persisted, the vote is not (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="self.effect(PersistElection(self.version, self.election))",
    replacement="self.effect(PersistElection(self.version, self.election.replace(voted=None)))",
    scenario="initial-leader",
    seed=1,
)
