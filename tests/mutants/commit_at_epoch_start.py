"""The high watermark may equal the start of the epoch (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if end <= self.epoch_start or end <= log.high_watermark:",
    replacement="        if end < self.epoch_start or end <= log.high_watermark:",
    scenario="mixture",
    seed=1,
)
