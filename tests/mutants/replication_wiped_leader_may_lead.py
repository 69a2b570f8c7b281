"""A replica whose log is gone or cut is not reported as lost, and may lead (V2, V19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.lost_replicas",
    source="        return log.lacks_records and partition.replica_count > 1",
    replacement="        return False",
    scenario="cluster",
    seed=2,
    faults="lost-folder",
)
