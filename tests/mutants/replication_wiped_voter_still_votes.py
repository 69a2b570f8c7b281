"""A controller that returns with an empty disk, and has forgotten its vote, votes again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.logstate.voters",
    source="        return known == theirs or known == NULL_UUID",
    replacement="        return known != theirs or known == theirs or known == NULL_UUID",
    scenario="cluster",
    seed=114,
)
