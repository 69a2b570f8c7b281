"""A follower fetches past batches that it has not written yet (V7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.fetcher",
    source=(
        "            if any(partition.unwritten for partition in self._unwritten):\n"
        "                return False\n"
    ),
    replacement="",
    scenario="cluster",
    seed=4,
)
