"""A pre-vote is granted whatever the candidate's log lacks (P2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="if not core.log.is_covered_by(vote.last_epoch, vote.end_offset):",
    replacement="""\
if not vote.pre_vote and not core.log.is_covered_by(vote.last_epoch, vote.end_offset):""",
    scenario="mixture",
    seed=8,
)
