"""A replica grants a second vote in an epoch (Q2)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="return core.election.voted in {None, vote.candidate}",
    replacement="return True",
    scenario="back-to-back",
    seed=1,
)
