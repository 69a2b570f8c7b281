"""A reassignment leaves removed replicas in the ISR (KAFKA-9672)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()",
    replacement="self.replicas, self.adding, self.removing = replicas, (), ()",
    scenario="cluster",
    seed=2,
)
