"""A new leader serves before it has written what it fetched (V6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="self.is_open and not (self.is_truncating or self._awaits_writes)",
    replacement="self.is_open and not self.is_truncating",
    test=(
        "tests/replication/test_fetching.py::test_v6_leader_serves_once_fetched_batches_are_written"
    ),
)
