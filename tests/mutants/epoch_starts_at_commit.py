"""A leader takes the first uncommitted record for the first of its epoch (Q14, Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        self.epoch_start = core.log.end",
    replacement="        self.epoch_start = core.log.high_watermark",
    scenario="mixture",
    seed=1,
)
