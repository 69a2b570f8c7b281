"""Installing a snapshot moves the log start, but not the log end (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="        self.start = self.end = self.flushed = end.offset",
    replacement="        self.start = end.offset",
    scenario="snapshot-install",
    seed=1,
)
