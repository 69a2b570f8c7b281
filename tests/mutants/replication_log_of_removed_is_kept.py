"""A partition that is added again gets the log of the removed one of its number (V11)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.log_lifecycle",
    source="        if is_of_partition(log, effect.first_leader_epoch):\n",
    replacement="        if True:\n",
    scenario="cluster",
    seed=12,
    test="tests/runner/test_removed_partitions.py::test_v11_a_broker_that_was_away_discards_an_older_log",
)
