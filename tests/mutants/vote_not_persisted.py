"""The epoch is persisted, the vote is not (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="PersistElection(self.election_version, self.election)",
    replacement="PersistElection(self.election_version, self.election.replace(voted=None))",
    scenario="initial-leader",
    seed=1,
)
