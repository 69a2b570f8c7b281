"""The retry of an election write replaces a newer state (Q4)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.quorum_io",
    source="            lambda: quorum_state.store(self._files, self._folder, self._election),",
    replacement=(
        "            lambda it=self._election: quorum_state.store(self._files, self._folder, it),"
    ),
    test=(
        "tests/runner/test_io_threads.py::"
        "test_q4_the_retry_of_an_election_write_keeps_a_newer_state"
    ),
)
