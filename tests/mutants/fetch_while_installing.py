"""A follower fetches while a snapshot replaces its log (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.fetcher",
    source="if core.log.installing is not None:",
    replacement="if core.log.installing == 0:",
    test="tests/raft/test_snapshots.py::test_q38_nothing_is_fetched_while_a_snapshot_is_installed",
)
