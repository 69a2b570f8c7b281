"""A read gets the log end instead of the high watermark (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="self.complete_read(core, read.pending, ErrorCode.NONE, core.log.high_watermark)",
    replacement="self.complete_read(core, read.pending, ErrorCode.NONE, core.log.end)",
    scenario="late-copies",
    seed=3,
)
