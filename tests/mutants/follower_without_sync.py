"""A follower acknowledges unflushed records (Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="unflushed = core.may_be_counted and log.flushed < log.end",
    replacement="unflushed = False",
    scenario="quiet",
    seed=1,
)
