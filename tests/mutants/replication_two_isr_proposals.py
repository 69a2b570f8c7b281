"""A proposed ISR counts although newer metadata has another (V1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source=(
        "        if image.partition_epoch != self.partition_epoch:\n"
        "            self.partition_epoch = image.partition_epoch\n"
        "            self.proposed = None"
    ),
    replacement=(
        "        if image.partition_epoch != self.partition_epoch:\n"
        "            self.partition_epoch = image.partition_epoch"
    ),
    scenario="cluster",
    seed=1,
)
