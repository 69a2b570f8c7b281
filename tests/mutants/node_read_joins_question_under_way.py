"""On whole nodes, a read uses the response to a request that was sent before it (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="for wait in self.asking]",
    replacement="for wait in self.asking + self.fresh]\n        self.fresh = []",
    scenario="reads-anywhere",
    seed=4,
    nodes=True,
)
