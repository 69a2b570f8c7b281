"""A duplicate of the fetch that was answered last counts as proof for a read (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if request.number > progress.answered_number >= 0:",
    replacement="        if request.number >= progress.answered_number >= 0:",
    scenario="late-copies",
    seed=13,
)
