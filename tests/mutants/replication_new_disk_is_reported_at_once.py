"""A replica on another disk reports it before it has caught up (V19, V21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.lost_replicas",
    source="        if self._is_elsewhere(partition) and not log.is_original:",
    replacement="        if False:",
    scenario="cluster",
    seed=3,
    faults="replaced-disk",
)
