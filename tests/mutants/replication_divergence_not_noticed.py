"""A leader does not compare the last fetched epoch with its log (V6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.reader",
    source="if part.last_fetched_epoch >= 0 and part.fetch_offset >= partition.start:",
    replacement="if part.last_fetched_epoch >= 99999 and part.fetch_offset >= partition.start:",
    scenario="cluster",
    seed=10,
    test="tests/replication/test_fetching.py::test_v6_truncated_batches_are_no_duplicates",
)
