"""A partition that is added again starts in leader epoch 0 again (V11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.topics",
    source="            epoch = removed.leader_epoch + 1\n",
    replacement="            epoch = 0\n",
    scenario="cluster",
    seed=2,
)
