"""A log leads though the directory that the metadata names is offline (V19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.found_copies",
    source="if assigned is None and self._lost and not is_reserved(effect.directory):",
    replacement=(
        "if assigned is None and self._lost and not [\n"
        "            it for it in self._directories if name in it.directory.unopened\n"
        "        ]:"
    ),
    test=(
        "tests/runner/test_moves_and_faults.py"
        "::test_v19_while_the_recorded_directory_is_offline_no_log_leads"
    ),
)
