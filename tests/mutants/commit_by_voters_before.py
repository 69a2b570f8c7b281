"""The voters before an uncommitted change decide what is committed (R1, Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="        voters, ends = history.latest, []",
    replacement="        voters, ends = history.committed(mark), []",
    scenario="mixture",
    seed=1,
)
