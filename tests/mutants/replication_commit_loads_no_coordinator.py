"""A coordinator that waits for a commit does not hear of it (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source=("        self._on_done = on_done\n        partition.watch(self)"),
    replacement="        self._on_done = on_done",
    scenario="cluster",
    seed=16,
)
