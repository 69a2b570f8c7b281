"""Q6: what a replica fetched as an observer, flushed or not, counts once it is a voter."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="            if previous is not None and end <= change and",
    replacement="            if previous is not None and end < 0 and",
    scenario="mixture",
    seed=28,
)
