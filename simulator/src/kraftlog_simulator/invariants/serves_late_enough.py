"""I14: a new leader's state machine serves only after applying its epoch's first record.

Source: Q26; Kafka's listener contract.
"""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog_simulator.process import Replica


class ServesLateEnough(Invariant):
    name = "serves late enough"

    def on_serve(self, replica: Replica, epoch: int) -> None:
        core, batches = replica.core, replica.disk.batches
        assert core is not None
        # It may have resigned by the end of the step.
        if core.election.epoch == epoch and core.election.leader_id not in {-1, replica.id}:
            self.fail(
                f"replica {replica.id} serves epoch {epoch}, but another leads: {core.election}"
            )
        first = bisect_left(batches, epoch, key=lambda batch: batch.epoch)
        if first == len(batches) or replica.applied <= batches[first].last_offset:
            self.fail(
                f"replica {replica.id} serves epoch {epoch}, has applied up to {replica.applied}"
            )
