"""Records appended after the report of a copy are not in it before the turn ends (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_moves",
    source="        while copy.end_offset < log.end_offset:\n",
    replacement=(
        "        while copy.end_offset < log.end_offset and is_recorded(\n"
        "            node, move.name, copy.topic_id, target.id\n"
        "        ):\n"
    ),
    test=(
        "tests/runner/test_moves_and_faults.py"
        "::test_v22_a_move_survives_any_stop_and_the_loss_of_a_directory[kill-source-lost]"
    ),
)
