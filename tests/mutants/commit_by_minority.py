"""One replica fewer than a majority commits (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="return sorted(ends, reverse=True)[voters.majority - 1]",
    replacement="return sorted(ends, reverse=True)[max(voters.majority - 2, 0)]",
    scenario="leader-failure",
    seed=1,
)
