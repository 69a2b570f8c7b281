"""A coordinator that takes a group over begins with its first generation again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.groups.group",
    source="    group.generation = value.generation\n",
    replacement="    group.generation = 0\n",
    scenario="cluster",
    seed=3,
)
