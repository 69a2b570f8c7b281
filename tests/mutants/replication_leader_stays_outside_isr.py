"""The controller keeps a leader that has left the ISR (V2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="if self._is_eligible(each) and self.can_lead(each)",
    replacement="if self.can_lead(each) and (self._is_eligible(each) or each == order[0])",
    scenario="cluster",
    seed=2,
)
