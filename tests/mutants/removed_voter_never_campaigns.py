"""R5: a replica with an uncommitted removal never campaigns, even if no other can win."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="        return self.is_voter or (",
    replacement="        return self.is_voter or False and (",
    scenario="only-the-removed-knows",
    seed=1,
)
