"""An incomplete snapshot is installed (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.snapshots",
    source="    if chunk.position + chunk.length >= chunk.size:",
    replacement="    if chunk.position + chunk.length >= chunk.size // 2:",
    scenario="snapshot-race",
    seed=1,
)
