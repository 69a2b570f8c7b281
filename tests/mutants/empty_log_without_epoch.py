"""A log without records does not get its snapshot's epoch, so it seems older (Q12, Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="if self.snapshot is not None and not self.epochs.epochs:",
    replacement="if self.snapshot is not None and self.epochs.epochs == [-1]:",
    scenario="snapshot-race",
    seed=1,
)
