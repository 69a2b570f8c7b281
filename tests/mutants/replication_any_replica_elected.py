"""The controller elects replicas that are not in the ISR (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="        return broker in self.isr or (not self.isr and broker in self.elr)",
    replacement="        return broker in self.replicas",
    scenario="cluster",
    seed=2,
)
