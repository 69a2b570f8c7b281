"""A vote is granted whatever the candidate's log lacks (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="if not core.log.is_covered_by(vote.last_epoch, vote.end_offset):",
    replacement="if False:",
    scenario="leader-partitioned",
    seed=1,
)
