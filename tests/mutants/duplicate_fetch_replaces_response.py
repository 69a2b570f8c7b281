"""The response to a late duplicate of a fetch is recorded in place of a newer response (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="if request.number > self.answered_number:",
    replacement="if request.number:",
    scenario="late-copies",
    seed=1,
)
