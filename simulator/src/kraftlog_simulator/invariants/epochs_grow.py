"""I2: a replica's epoch never decreases, and what it treats as durable is on its disk.

Source: Q2, Q3, Q8; Kafka's MonotonicEpoch.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class EpochsGrow(Invariant):
    name = "epochs grow"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: The last written epoch, by replica and how often it has lost its disk.
        self.persisted: dict[tuple[int, int], int] = {}

    def on_persist(self, replica: Replica, state: ElectionState) -> None:
        disk = (replica.id, replica.disk_losses)
        before = self.persisted.get(disk, 0)
        if state.epoch < before:
            self.fail(f"replica {replica.id} wrote epoch {state.epoch} after {before}")
        self.persisted[disk] = state.epoch

    def on_start(self, replica: Replica) -> None:
        assert replica.core is not None
        before = self.persisted.get((replica.id, replica.disk_losses), 0)
        if replica.core.election.epoch < before:
            self.fail(
                f"replica {replica.id} starts in epoch {replica.core.election.epoch} after {before}"
            )

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        before, after = replica.seen_election, core.election
        if before is not None and after.epoch < before.epoch:
            self.fail(f"replica {replica.id} went from {before} to {after}")
        if core.durable_election_version >= core.election_version:
            written = replica.disk.election
            # A restarted leader has resigned, and need not write that.
            has_resigned = after.leader_id == -1 and written.leader_id == replica.id
            if not (written == after or (has_resigned and written.replace(leader_id=-1) == after)):
                self.fail(f"replica {replica.id} treats {after} as durable, the disk has {written}")
