"""The controller elects replicas that are not in the ISR (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="        return broker in self.isr or (not self.isr and broker in self.elr)",
    replacement="        return broker in self.replicas",
    scenario="cluster",
    seed=2,
    test="tests/controller/test_elections.py::test_v2_a_preferred_replica_outside_the_isr_is_not_elected",
)
