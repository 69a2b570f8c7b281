"""A request for another replica's directory is obeyed (Q12)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.elections",
    source="return key.id == core.me.id and key.directory_id in {unknown, core.me.directory_id}",
    replacement="return key.id == core.me.id or key.directory_id == unknown",
    scenario="mixture",
    seed=3,
)
