"""A report of an earlier start of a node replaces that of a later one (R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.known_nodes",
    source="if before is not None and before.recency >= report.recency:",
    replacement="if before == report:",
    scenario="moved-voters",
    seed=1,
    nodes=True,
)
