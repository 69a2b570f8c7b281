"""A reassignment completes before the added replicas are in sync (V10)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="if isr and replicas and set(needed) <= set(isr):",
    replacement="if isr and replicas and set(needed) >= set():",
    scenario="cluster",
    seed=126,
    test=(
        "tests/controller/test_reassignment.py::test_v10_old_replicas_are_removed_once_new_ones_are_in_sync"
    ),
)
