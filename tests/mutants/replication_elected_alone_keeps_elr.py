"""A leader that may commit alone since its election leaves others eligible (V21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.partition_change",
    source="            if self.min_isr == 1:\n",
    replacement="            if self.min_isr == 0:\n",
    test=(
        "tests/controller/test_eligible_replicas.py"
        "::test_v21_an_elected_leader_that_may_commit_alone_clears_the_elr"
    ),
)
