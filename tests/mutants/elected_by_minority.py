"""A candidate wins with one vote fewer than a majority (Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.voter_poll",
    source="if len(self.granted) >= voters.majority:",
    replacement="if len(self.granted) >= max(voters.majority - 1, 1):",
    scenario="leader-partitioned",
    seed=1,
)
