"""A copy that lacks records takes the place of a lost log (V19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.found_copies",
    source="        whole = [folder for folder in copies if is_whole(self._files, folder)]\n",
    replacement="        whole = copies\n",
    test=("tests/runner/test_moves_and_faults.py::test_v19_a_copy_that_is_not_whole_is_no_replica"),
)
