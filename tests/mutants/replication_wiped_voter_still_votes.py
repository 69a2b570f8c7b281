"""Directory ids are ignored, so a voter that lost its disk and its vote votes again (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.logstate.voters",
    source="        return known == given or known == NULL_UUID",
    replacement="        return known != given or known == given or known == NULL_UUID",
    scenario="cluster",
    seed=114,
)
