"""A resigned leader is still named as the leader of its epoch (Q17)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="        return ElectionState(election.epoch, -1, self.me)",
    replacement="        return election",
    scenario="mixture",
    seed=1,
)
