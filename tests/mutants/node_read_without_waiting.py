"""A linearizable read is served from what the node has applied, like a stale one (P7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.handlers.consistency",
    source="        if not request.linearizable:",
    replacement="        if node:",
    scenario="reads-anywhere",
    seed=1,
    nodes=True,
)
