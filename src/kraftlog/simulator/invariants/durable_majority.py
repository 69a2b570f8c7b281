"""I5: what is committed is durable on a majority of the voters.

Source: Q6, Q21; Kafka's MajorityReachedHighWatermark, the etcd specification in TLA+.
"""

from __future__ import annotations

from kraftlog.simulator.invariants.invariant import Invariant
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.simulator.replica import Replica


class DurableMajority(Invariant):
    name = "durable majority"

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        if high_watermark <= self.oracle.committed_end:
            return
        position = replica.disk.position_before(high_watermark)
        chain = replica.disk.chains[position]
        voters = core.log.voter_set
        holders = []
        for voter_id in voters.ids:
            disk = self.world.replicas[voter_id].disk
            if disk.durable > position and disk.chains[position] == chain:
                holders.append(voter_id)
        if len(holders) < voters.majority:
            self.fails(f"{high_watermark} is committed by {replica.id}, only {holders} hold it")
