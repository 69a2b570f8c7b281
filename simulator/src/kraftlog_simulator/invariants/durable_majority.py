"""I5: what is committed is durable on a majority of the voters in force.

Source: Q6, Q21; Kafka's MajorityReachedHighWatermark, the etcd specification in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey, VoterSet
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica


class DurableMajority(Invariant):
    name = "durable majority"

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        if high_watermark <= self.oracle.committed_end:
            return
        position = replica.disk.position_before(high_watermark)
        chain = replica.disk.chains[position]
        holders = {
            other.id: other.key
            for other in self.world.replicas.values()
            if other.disk.durable > position and other.disk.chains[position] == chain
        }
        # The copy of a lost directory still counts: without its vote, a new leader needs a larger
        # part of the other voters.
        lost = [
            key
            for other in self.world.replicas.values()
            for key, chains in other.lost_logs.items()
            if len(chains) > position and chains[position] == chain
        ]
        # The voter set in force before this step, and the sets that this step appended.
        seen_count = len(replica.seen_voters or ())
        in_force = [replica.seen_voter_set] if replica.seen_voter_set is not None else []
        in_force += [voters for _, voters in core.log.voters.entries[seen_count:]]
        # A snapshot may have removed the entry of the newest set.
        in_force.append(core.log.voter_set)
        if not any(is_majority(holders, lost, voters) for voters in in_force):
            self.fail(
                f"{replica.id} commits up to {high_watermark}, which only {list(holders)} hold"
            )


def is_majority(holders: dict[int, ReplicaKey], lost: list[ReplicaKey], voters: VoterSet) -> bool:
    """Whether the holders are a majority of the voters, by directory id where it is known."""
    holding = [voter for voter in voters.voters if voter.key.id in holders]
    count = len([voter for voter in holding if voters.holds(holders[voter.key.id])])
    if lost:
        count += len([voter for voter in voters.voters if voter.key in lost])
    return count >= voters.majority
