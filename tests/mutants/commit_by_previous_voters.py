"""The voters before an uncommitted change decide commits (R1, Q21)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.progress",
    source="        voters, change = history.latest, history.latest_offset",
    replacement="        voters, change = history.committed(committed), history.latest_offset",
    scenario="mixture",
    seed=1,
)
