"""A leader never proposes a larger ISR (V8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="self._propose(partition, (*partition.isr, *joining))",
    replacement="self._propose(partition, partition.isr)",
    scenario="cluster",
    seed=1,
)
