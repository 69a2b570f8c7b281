"""On whole nodes, a read is answered before a record of the leader's epoch is committed (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="if not self.reads or core.log.high_watermark <= self.epoch_start:",
    replacement="if not self.reads:",
    scenario="mixture",
    seed=7,
    nodes=True,
)
