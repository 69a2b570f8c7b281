"""A read counts as asked for by a question that was under way when it came (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="for wait in self.asking]",
    replacement="for wait in self.asking + self.fresh]\n        self.fresh = []",
    scenario="reads-anywhere",
    seed=3,
)
