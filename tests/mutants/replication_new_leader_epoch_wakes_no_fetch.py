"""A fetch that names an earlier leader epoch waits for new bytes instead of failing (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.delayed_fetches",
    source="                    self._call(fetch, fetch.role_changed, partition)\n",
    replacement="                    self._call(fetch, fetch.try_complete, partition)\n",
    scenario="cluster",
    seed=4,
)
