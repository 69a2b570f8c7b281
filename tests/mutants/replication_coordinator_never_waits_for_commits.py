"""A coordinator answers from records of its log that may not be committed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.coordinators.group_coordinators",
    source="        elif partition.high_watermark < context.load_end:\n",
    replacement="        elif partition.high_watermark < 0:\n",
    test=(
        "tests/simulator/cluster/test_replication_rules.py::"
        "test_v7_a_coordinator_answers_once_all_of_its_log_is_committed"
    ),
)
