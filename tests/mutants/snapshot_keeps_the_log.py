"""A snapshot does not replace the log (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        self.start = self.end = self.flushed = end.offset",
    replacement="        self.start = end.offset",
    scenario="snapshot-install",
    seed=1,
)
