"""A coordinator answers without having loaded its partition."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source="        if context.loaded_to < context.load_end:\n",
    replacement="        if context.loaded_to < 0:\n",
    scenario="cluster",
    seed=3,
)
