"""A fetch on a new connection proves that the last response arrived (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if progress is None or progress.channel != request.channel:",
    replacement="        if progress is None:",
    scenario="late-copies",
    seed=6,
)
