"""A follower's high watermark may exceed its log end (Q22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="known = min(high_watermark, log.end)",
    replacement="known = high_watermark",
    scenario="quiet",
    seed=1,
)
