"""A follower truncates to the leader's offset or its log end, not its own epoch's end (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="    end = min(diverging.offset, mine.offset)",
    replacement="    end = min(diverging.offset, core.log.end)",
    scenario="parted-logs",
    seed=2,
)
