"""A leader reports a removal that is not committed yet (R7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        return is_committed and fetch.offset <= removed_at",
    replacement="        return fetch.offset <= removed_at",
    scenario="mixture",
    seed=1,
)
