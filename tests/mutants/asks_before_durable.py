"""A candidate requests votes before its own is durable (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="self.effect(Send(peer, self._numbers, body, self.durable_election() + after, fresh))",
    replacement="self.effect(Send(peer, self._numbers, body, after, fresh))",
    scenario="mixture",
    seed=1,
)
