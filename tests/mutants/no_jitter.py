"""Every jitter is 0, so all voters wait equally long (Q10)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.jitter",
    source="    return (mixed >> 16) % below if below > 0 else 0",
    replacement="    return 0",
    scenario="data-loss",
    seed=6,
)
