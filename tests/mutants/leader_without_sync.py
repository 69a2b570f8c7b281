"""The leader counts what it has not synced (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="log.voter_set, core.me, log.flushed)",
    replacement="log.voter_set, core.me, log.end)",
    scenario="quiet",
    seed=2,
)
