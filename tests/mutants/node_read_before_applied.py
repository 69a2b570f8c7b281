"""A node serves a read as soon as the leader answers, before it has applied that offset (P6)."""

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
