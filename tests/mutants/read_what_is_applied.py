"""A read completes before its replica has applied the offset in the leader's response (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="if read.offset <= self.applied:",
    replacement="if read.offset >= 0:",
    scenario="reads-anywhere",
    seed=1,
)
