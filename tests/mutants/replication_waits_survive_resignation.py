"""A resigning leader does not fail the requests that wait for it (KAFKA-20634)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.replica_manager",
    source=(
        "        partition.resign(leader_epoch)\n        self._drop_waiting(partition, code)\n"
    ),
    replacement="        partition.resign(leader_epoch)\n",
    test=(
        "tests/replication/test_delayed_produce.py::"
        "test_waiting_requests_fail_when_the_partition_is_lost"
    ),
)
