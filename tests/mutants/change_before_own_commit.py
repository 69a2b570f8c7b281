"""R3: a new leader changes the voters before a record of its epoch is committed (Ongaro, 2015)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="    return committed > leader.epoch_start and core",
    replacement="    return core",
    scenario="early-changes",
    seed=3,
)
