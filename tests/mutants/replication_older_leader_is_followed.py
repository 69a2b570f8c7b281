"""A leader serves requests with a newer leader epoch than its own (KIP-320)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="if leader_epoch > self.leader_epoch:",
    replacement="if leader_epoch >= 1 << 31:",
    test=(
        "tests/replication/test_fetching.py::"
        "test_v16_leader_of_an_older_epoch_returns_unknown_leader_epoch"
    ),
)
