"""The last known leader is elected although the ELR is not empty (KIP-966)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="or self.isr or self.elr or len",
    replacement="or self.isr or len",
    test=(
        "tests/controller/test_elections.py"
        "::test_elr_the_last_leader_does_not_lead_while_another_is_eligible"
    ),
)
