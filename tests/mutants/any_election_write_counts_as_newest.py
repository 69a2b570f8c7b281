"""Any completed write of the election state counts as the newest (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="max(self.durable_election_version, message.version)",
    replacement="self.election_version",
    scenario="mixture",
    seed=63,
)
