"""A restart loses the vote (Q8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        self.election = election
        self.config""",
    replacement="""\
        self.election = election.replace(voted=None)
        self.config""",
    scenario="all-killed",
    seed=1,
)
