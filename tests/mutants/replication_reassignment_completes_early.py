"""A reassignment completes before the added replicas are in sync (V10)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="if isr and replicas and set(needed) <= set(isr):",
    replacement="if isr and replicas and set(needed) >= set():",
    scenario="cluster",
    seed=126,
)
