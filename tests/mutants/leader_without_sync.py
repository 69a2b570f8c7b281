"""The leader counts its own unflushed records (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="log.voters, core.me, log.flushed, mark)",
    replacement="log.voters, core.me, log.end, mark)",
    scenario="quiet",
    seed=2,
)
