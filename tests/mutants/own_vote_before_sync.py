"""A candidate counts its own vote before it is durable (Q3, Q13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.candidate",
    source="if core.durable_election_version >= core.election_version:",
    replacement="if core.election_version >= 0:",
    scenario="mixture",
    seed=23,
)
