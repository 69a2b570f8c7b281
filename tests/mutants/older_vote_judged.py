"""A vote request of an older epoch is not fenced (Q2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
    if vote.epoch < core.election.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
""",
    replacement="",
    scenario="mixture",
    seed=33,
)
