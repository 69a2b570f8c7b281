"""Q6: records fetched as an observer, flushed or not, count as soon as it is a voter."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="            if previous is not None and end <= change and",
    replacement="            if previous is not None and end < 0 and",
    scenario="mixture",
    seed=28,
)
