"""A log that moves is deleted before the controller has recorded its new directory (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_moves",
    source="elif is_recorded(node, move.name, copy.topic_id, target.id) and ",
    replacement="elif ",
    test=(
        "tests/runner/test_moves_and_faults.py"
        "::test_v22_the_source_is_the_replica_until_the_target_is_recorded"
    ),
)
