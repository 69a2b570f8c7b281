"""I10: a leader first commits a record of its own epoch, which begins with a LeaderChange.

Source: Q14, Q21; Raft, section 5.4.2.
"""

from __future__ import annotations

from kraftlog.raft.messages import LeaderChange
from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch
    from kraftlog_simulator.process import Replica


class OwnEpoch(Invariant):
    name = "own epoch"

    def on_append(self, replica: Replica, batch: Batch) -> None:
        batches = replica.disk.batches
        begins_epoch = len(batches) > 1 and batches[-2].epoch != batch.epoch
        if begins_epoch and not isinstance(batch.payload, LeaderChange):
            self.fail(f"epoch {batch.epoch} begins with {batch}, on replica {replica.id}")

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        role = core.role
        if isinstance(role, Leader) and replica.seen_role is role:
            epoch = core.election.epoch
            last = replica.disk.batches[replica.disk.position_before(high_watermark)]
            if last.epoch != epoch:
                self.fail(
                    f"leader {replica.id} of epoch {epoch} committed up to {high_watermark}, "
                    f"a record of epoch {last.epoch}"
                )
