"""A leader commits records of older epochs by counting (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="if end <= self.epoch_start or end <= log.high_watermark:",
    replacement="if end <= log.high_watermark:",
    scenario="leader-failure",
    seed=1,
)
