"""A leader never proposes a larger ISR (V8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="isr = (*partition.isr, *joining)",
    replacement="isr = partition.isr",
    scenario="cluster",
    seed=1,
)
