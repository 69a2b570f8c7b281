"""A leader does not look again at who counts when a follower outside the ISR is fenced (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source="            changed |= self._shrunk",
    replacement="            changed |= {}",
    scenario="cluster",
    seed=61,
    test=(
        "tests/replication/test_joined_replay.py::test_v24_unregistered_follower_releases_waiting_batches"
    ),
)
