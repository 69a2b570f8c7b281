"""A restarted leader keeps leading its epoch (Q8, Q11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
            self.election = self.without_leader(self.election)
        self.role""",
    replacement="""\
            name = quorum.LEADER
        self.role""",
    scenario="leader-failure",
    seed=1,
)
