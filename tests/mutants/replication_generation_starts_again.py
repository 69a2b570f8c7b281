"""A coordinator that loads a group starts its generation at 0 again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.groups.group",
    source="    group.generation = value.generation\n",
    replacement="    group.generation = 0\n",
    scenario="cluster",
    seed=3,
)
