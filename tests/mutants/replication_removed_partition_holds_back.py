"""A removed partition holds back the fetches of the others (V13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.fetcher",
    source="self._unwritten.pop(followed.partition, None)",
    replacement="self._unwritten.setdefault(followed.partition, None)",
    test=(
        "tests/replication/test_fetching.py::"
        "test_v13_removed_partition_never_holds_back_the_fetches_of_others"
    ),
)
