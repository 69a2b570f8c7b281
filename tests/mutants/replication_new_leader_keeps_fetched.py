"""A new leader writes what it fetched in the turn of its election (V6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.replica_manager",
    source=(
        "        if not partition.leads:\n"
        "            partition.drop_pending(self.turn)\n"
        "            if partition.is_open"
    ),
    replacement=("        if not partition.leads:\n            if partition.is_open"),
    test=(
        "tests/replication/test_fetching.py::"
        "test_v6_batches_fetched_in_the_turn_of_the_election_are_dropped"
    ),
)
