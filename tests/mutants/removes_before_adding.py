"""A reassignment removes voters first and adds later (R3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.changes",
    source="    elif missing and len(missing) >= len(surplus):",
    replacement="    elif missing and not surplus:",
    scenario="move",
    seed=1,
)
