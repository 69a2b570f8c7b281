"""A peer that was found down still counts as down after it has responded (Q9a, P2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="peer.failures, peer.is_down = 0, False",
    replacement="peer.failures = 0",
    scenario="seems-removed",
    seed=1,
)
