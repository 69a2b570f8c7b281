"""Breaks Q4: the vote is not persisted."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q4: the vote is not persisted",
    detected_by="a node votes once in an epoch",
    module="kraftlog.raft.core",
    original="PersistElection(self.election_version, self.election)",
    replacement="PersistElection(self.election_version, self.election.replace(voted=None))",
    bound={"epochs": 1, "records": 0},
)
