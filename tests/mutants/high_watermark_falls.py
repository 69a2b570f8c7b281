"""The high watermark may decrease (Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="    if known > log.high_watermark:",
    replacement="    if known != log.high_watermark:",
    scenario="mixture",
    seed=1,
)
