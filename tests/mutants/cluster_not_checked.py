"""Requests of any cluster are obeyed (Q30)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="        return theirs is not None and self.cluster_id is not None",
    replacement="        return False",
    scenario="mixture",
    seed=7,
)
