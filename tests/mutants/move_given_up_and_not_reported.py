"""A move whose target has failed is not reported to the controller as given up (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_moves",
    source="        self._notify(LogPlaced(name, move.log.topic_id, source.directory.id), now)\n",
    replacement="",
    test=(
        "tests/runner/test_moves_and_faults.py"
        "::test_v22_a_target_that_fails_before_it_is_recorded_is_given_up"
    ),
)
