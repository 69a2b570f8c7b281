"""A voter that returns with an empty disk still votes by its id."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.logstate.voters",
    source="        return known == given or known == NULL_UUID",
    replacement="        return known != given or known == given or known == NULL_UUID",
    scenario="returned-empty",
    seed=1,
)
