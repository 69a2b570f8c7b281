"""A replica that has lost committed records is not reported, and may lead (V19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_lifecycle",
    source="        if committed > end:",
    replacement="        if False:",
    scenario="cluster",
    seed=10,
    faults="cut-log",
)
