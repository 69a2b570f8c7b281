"""An ISR proposed for an older partition epoch is accepted (V1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source="if epochs[1] < known[1]:",
    replacement="if epochs[1] < 0:",
    scenario="cluster",
    seed=46,
    faults="isr-race",
)
