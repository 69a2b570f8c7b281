"""Q6: what an observer had fetched, on disk or not, counts as soon as it is a voter."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="            if before is not None and end <= change and",
    replacement="            if before is not None and end < 0 and",
    scenario="mixture",
    seed=28,
)
