"""A fetch that was parked when the read arrived counts as proof once it is answered (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        return progress is not None and progress.confirmed_at > read.arrived",
    replacement="        return progress is not None and progress.answered_at > read.arrived",
    scenario="late-copies",
    seed=172,
)
