"""An unfenced follower is proposed with its next fetch, not when the leader replays that (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.in_sync_replicas",
    source=(
        "            if partition in self._shrunk:\n"
        "                self._expand(partition)\n"
        "            yield UPDATE_COST"
    ),
    replacement="            yield UPDATE_COST",
    scenario="cluster",
    seed=1,
)
