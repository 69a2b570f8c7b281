"""A leader accepts a fetch of an older epoch (Q18)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if 0 <= epoch < core.election.epoch:",
    replacement="        if False:",
    scenario="parted-logs",
    seed=4,
)
