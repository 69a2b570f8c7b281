"""A candidate requests votes before its own is durable (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="self.durable_election() + after\n",
    replacement="after\n",
    scenario="mixture",
    seed=1,
)
