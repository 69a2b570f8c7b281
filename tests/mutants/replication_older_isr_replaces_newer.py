"""An ISR proposed for an older partition epoch is accepted (V1)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source="if epochs[1] < known[1]:",
    replacement="if epochs[1] < 0:",
    test=(
        "tests/simulator/cluster/test_late_requests.py::"
        "test_v9_a_late_proposal_brings_no_member_back_into_the_isr"
    ),
)
