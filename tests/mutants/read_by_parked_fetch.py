"""Fetches sent before a read arrived prove that the leader still leads (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="asked.number > progress.answered_number >= 0",
    replacement="asked.number >= 0",
    scenario="mixture",
    seed=1,
)
