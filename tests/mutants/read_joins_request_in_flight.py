"""A read uses the response to a request that was sent before the read (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="for read in self.requested]",
    replacement="for read in self.requested + self.queued]\n        self.queued = []",
    scenario="reads-anywhere",
    seed=302,
)
