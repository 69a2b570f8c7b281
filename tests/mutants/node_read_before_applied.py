"""On whole nodes, a read completes before its replica has applied the leader's offset (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="            if read.offset <= self.applied:",
    replacement="            if read:",
    scenario="reads-anywhere",
    seed=1,
    nodes=True,
)
