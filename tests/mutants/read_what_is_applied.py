"""A replica answers a linearizable read with what it has, whatever the leader says (P6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.reads",
    source="if wait.offset <= self.applied:",
    replacement="if wait.offset >= 0:",
    scenario="reads-anywhere",
    seed=1,
)
