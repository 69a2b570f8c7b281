"""A leader whose removal is committed keeps leading (R5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="    if not core.is_voter and core.log.voters.latest_offset < core.log.high_watermark:",
    replacement="    if core.log.end < 0:",
    scenario="mixture",
    seed=27,
)
