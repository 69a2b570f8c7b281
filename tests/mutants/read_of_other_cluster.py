"""A read from another cluster is answered (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if core.cluster_id_differs(read.cluster_id):",
    replacement="        if False:",
    scenario="mixture",
    seed=66,
)
