"""A proposed ISR still counts when the metadata has a newer partition epoch (V1)."""

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
    seed=5,
)
