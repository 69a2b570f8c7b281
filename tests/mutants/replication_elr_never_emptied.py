"""The ELR is kept when the ISR has min.insync.replicas again (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source=(
        "        if not self.elr_enabled or len(self.isr) >= self.min_isr:\n"
        "            self.elr = ()\n"
        "            return\n"
    ),
    replacement=(
        "        if not self.elr_enabled:\n            self.elr = ()\n            return\n"
    ),
    scenario="cluster",
    seed=1,
)
