"""EndQuorumEpoch of an older epoch is obeyed (Q17)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
    if epoch < mine.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    known""",
    replacement="    known",
    scenario="late-farewell",
    seed=1,
)
