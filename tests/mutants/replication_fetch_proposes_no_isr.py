"""A follower that has caught up is proposed by the next periodic check only (V8, V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source=("        if broker_id not in partition.isr:\n            self._expand(partition)"),
    replacement=("        if broker_id == self._broker_id:\n            self._expand(partition)"),
    scenario="cluster",
    seed=1,
)
