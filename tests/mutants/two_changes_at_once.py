"""R3: a change begins before the previous one is committed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="leader.epoch_start and core.log.voters.latest_offset < committed",
    replacement="leader.epoch_start",
    scenario="mixture",
    seed=1,
)
