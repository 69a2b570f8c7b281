"""A vote is sent before it is durable (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="self.effect(Reply(pending, body, self.durable_election()))",
    replacement="self.effect(Reply(pending, body, ()))",
    scenario="leader-failure",
    seed=1,
)
