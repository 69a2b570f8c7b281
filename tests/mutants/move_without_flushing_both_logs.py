"""An acknowledged flush of a log that moves does not include its copy (V22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.flushes",
    source="                mirror_job.run(self._files)\n",
    replacement="                pass\n",
    test=(
        "tests/runner/test_moves_and_faults.py"
        "::test_v22_a_move_survives_any_stop_and_the_loss_of_a_directory[power-source-lost]"
    ),
)
