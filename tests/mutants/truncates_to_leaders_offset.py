"""A follower truncates to the leader's offset, even if its own epoch ends before it (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="    end = min(diverging.offset, mine.offset)",
    replacement="    end = diverging.offset",
    scenario="parted-logs",
    seed=2,
)
