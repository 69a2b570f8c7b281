"""A partition keeps its leader epoch when it gets another leader (V1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.metadata.replay",
    source="before.leader_epoch if same_leader else before.leader_epoch + 1,",
    replacement="before.leader_epoch,",
    scenario="cluster",
    seed=1,
)
