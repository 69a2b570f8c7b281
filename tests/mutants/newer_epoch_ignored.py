"""A newer epoch is adopted only from a candidate that is granted (Q2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
    adopt(core, vote.epoch, -1)
""",
    replacement="""\
    if core.log.is_covered_by(vote.last_epoch, vote.end_offset):
        adopt(core, vote.epoch, -1)
""",
    scenario="mixture",
    seed=1,
)
