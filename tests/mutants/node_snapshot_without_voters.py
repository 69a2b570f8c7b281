"""A node's snapshots lack the voters (R1, Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.logstate.quorum_records",
    source="    if voters.is_recorded:\n",
    replacement="    if voters.is_recorded and not voters.voters:\n",
    scenario="all-killed-with-snapshots",
    seed=1,
    nodes=True,
)
