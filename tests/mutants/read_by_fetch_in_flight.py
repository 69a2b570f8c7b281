"""A fetch that was sent before the read arrived counts as proof for the read (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="            progress.confirmed_at = progress.answered_at",
    replacement="            progress.confirmed_at = self.events + 1",
    scenario="late-copies",
    seed=19,
)
