"""A voter compares the candidate's log with its own high watermark (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="return (last_epoch, end_offset) >= (self.last_epoch, self.end)",
    replacement="return (last_epoch, end_offset) >= (self.last_epoch, self.high_watermark)",
    scenario="mixture",
    seed=10,
)
