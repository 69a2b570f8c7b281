"""BeginQuorumEpoch and EndQuorumEpoch of an older epoch are not fenced (Q16, Q17)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="""\
    if epoch < mine.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    leader_of_epoch""",
    replacement="    leader_of_epoch",
    scenario="late-farewell",
    seed=1,
)
