"""A leader does not fence requests with an older leader epoch (KIP-320)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="if leader_epoch < self.leader_epoch:",
    replacement="if leader_epoch < 0:",
    test=(
        "tests/replication/test_fetching.py::"
        "test_v16_leader_of_an_older_epoch_returns_unknown_leader_epoch"
    ),
)
