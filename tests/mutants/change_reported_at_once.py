"""A voter change is acknowledged before it is committed (R2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="""\
    append_voters(core, leader, voters)
    leader.complete_when_committed(core, pending, core.log.end)""",
    replacement="""\
    append_voters(core, leader, voters)
    leader.complete_when_committed(core, pending, core.log.high_watermark)""",
    scenario="mixture",
    seed=1,
)
