"""I15: without faults the leader stays.

Source: P2, P3; KIP-996; Kafka checks it in two fixed topologies only.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class StableLeader(Invariant):
    name = "stable leader"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: The id and epoch of the leader that must stay, while a script has no faults.
        self.must_stay: tuple[int, int] | None = None

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        if self.must_stay is None:
            return
        leader, epoch = self.must_stay
        if not (
            core.election.epoch <= epoch and (replica.id != leader or core.role.name == "leader")
        ):
            self.fail(
                f"replica {replica.id} is {core.role.name} in epoch {core.election.epoch}, "
                f"while {leader} led epoch {epoch} without faults"
            )
