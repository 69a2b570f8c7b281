"""A fetch below the log start is answered from the log (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        if snapshots.is_needed(core, fetch):",
    replacement="        if False:",
    scenario="snapshot-install",
    seed=1,
)
