"""A replica on another disk reports it before it has caught up (V19, V21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.lost_replicas",
    source="        elif self._is_elsewhere(partition):",
    replacement="        elif False:",
    test="tests/replication/test_lost_replicas.py",
)
