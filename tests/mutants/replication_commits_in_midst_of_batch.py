"""A leader commits with an ISR of a batch whose min.insync.replicas it has not applied (V20)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="        if not partition.online or partition in self._held:",
    replacement="        if not partition.online:",
    scenario="cluster",
    seed=9,
    faults="raised-minimum",
)
