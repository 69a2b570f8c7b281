"""I2: a replica's epoch never decreases, and what it treats as durable is on its disk.

Source: Q2, Q3, Q8; Kafka's MonotonicEpoch.
"""

from __future__ import annotations

from kraftlog.simulator.invariants.invariant import Invariant
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog.simulator.interfaces import SimulatedWorld
    from kraftlog.simulator.process import Replica


class EpochsGrow(Invariant):
    name = "epochs grow"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        self.persisted: dict[tuple[int, int], int] = {}

    def on_persist(self, replica: Replica, state: ElectionState) -> None:
        life = (replica.id, replica.disk_losses)
        before = self.persisted.get(life, 0)
        if state.epoch < before:
            self.fails(f"replica {replica.id} wrote epoch {state.epoch} after {before}")
        self.persisted[life] = state.epoch

    def on_start(self, replica: Replica) -> None:
        assert replica.core is not None
        before = self.persisted.get((replica.id, replica.disk_losses), 0)
        if replica.core.election.epoch < before:
            self.fails(
                f"replica {replica.id} starts in {replica.core.election.epoch} after {before}"
            )

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        seen, now = replica.seen_election, core.election
        if seen is not None and now.epoch < seen.epoch:
            self.fails(f"replica {replica.id} went from {seen} to {now}")
        if core.durable_version >= core.version:
            written = replica.disk.election
            # A restarted leader clears its leadership, and need not write that.
            forgot = now.leader_id == -1 and written.leader_id == replica.id
            if not (written == now or (forgot and written.replace(leader_id=-1) == now)):
                self.fails(f"replica {replica.id} takes {now} for durable, the disk has {written}")
