"""I9: no replica truncates what a majority has committed, or records of its current epoch.

The check looks at the disks of all replicas: the replica that truncates, and even the leader, may
not know yet what is committed. Source: Q19, Q21; Raft, section 5.3.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.durable_majority import is_majority
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey, VoterSet
    from kraftlog_simulator.process import Replica


class CommittedKept(Invariant):
    name = "committed kept"

    def on_truncate(self, replica: Replica, offset: int) -> None:
        disk, core = replica.disk, replica.core
        first = disk.position_before(offset) + 1
        if core is None or first >= len(disk.batches):
            return
        what = f"replica {replica.id} truncates its log to {offset}"
        committed = self.oracle.committed
        if first < len(committed) and disk.chains[first] == committed[first]:
            self.fail(f"{what}, but it is committed up to {self.oracle.committed_end}")
        if disk.batches[-1].epoch == core.election.epoch:
            self.fail(f"{what}: it has records of its current epoch, {core.election.epoch}")
        epoch = -1
        for position in range(first, len(disk.batches)):
            batch = disk.batches[position]
            if batch.epoch == epoch and batch.voters is None:
                continue  # a replica that holds this batch also holds the previous one
            epoch = batch.epoch
            holders = self._holders(replica, position)
            if is_majority(holders, [], self._voters_at(replica, position)):
                self.fail(f"{what}: {sorted(holders)} hold {batch}, from the leader of that epoch")

    def _holders(self, replica: Replica, position: int) -> dict[int, ReplicaKey]:
        """The replicas with a batch on disk that they received during its epoch.

        Only such copies commit it: yet another leader may overwrite a copy that the leader of a
        later epoch sent (Q21).
        """
        chain = replica.disk.chains[position]
        return {
            other.id: other.key
            for other in self.world.replicas.values()
            if other.disk.durable > position
            and other.disk.chains[position] == chain
            and chain not in other.disk.from_later_leader
        }

    def _voters_at(self, replica: Replica, position: int) -> VoterSet:
        """The voter set in force in a log that ends with this batch (R1)."""
        for batch in reversed(replica.disk.batches[: position + 1]):
            if batch.voters is not None:
                return batch.voters
        return self.world.voters
