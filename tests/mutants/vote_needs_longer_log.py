"""A candidate gets no vote if its log ends exactly as the voter's does (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.log",
    source="return (last_epoch, end_offset) >= (self.last_epoch, self.end)",
    replacement="return (last_epoch, end_offset) > (self.last_epoch, self.end)",
    scenario="mixture",
    seed=1,
)
