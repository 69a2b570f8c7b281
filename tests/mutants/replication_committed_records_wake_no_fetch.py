"""A new high watermark does not complete the delayed fetches of consumers (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.delayed_fetches",
    source="        if partition.fetches:\n            self._complete(",
    replacement="        if not partition.fetches:\n            self._complete(",
    scenario="cluster",
    seed=1,
)
