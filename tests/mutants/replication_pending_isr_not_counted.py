"""A leader does not count the members of the ISR that it has proposed (V7, KIP-497)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="        maximal_isr = partition.maximal_isr\n",
    replacement="        maximal_isr = partition.isr\n",
    scenario="cluster",
    seed=5,
    faults="isr-race",
)
