"""The longer log wins, whatever its last epoch (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="return (last_epoch, end_offset) >= (self.last_epoch, self.end)",
    replacement="return end_offset >= self.end",
    scenario="mixture",
    seed=40,
)
