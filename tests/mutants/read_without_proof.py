"""A read is answered without proof by a majority (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="return proofs >= voters.majority",
    replacement="return proofs >= 0",
    scenario="cut-off-leader",
    seed=1,
)
