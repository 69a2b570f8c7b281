"""I1: an epoch has at most one leader, in the memory and on the disk of all replicas.

Source: Q2; Kafka's SingleLeader, the KRaft and etcd specifications in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class OneLeader(Invariant):
    name = "one leader"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: The leader of each epoch.
        self.leaders: dict[int, int] = {}

    def on_role(self, replica: Replica, core: RaftCore) -> None:  # noqa: ARG002 - one interface for all invariants
        self._note(core.election)

    def on_persist(self, replica: Replica, state: ElectionState) -> None:  # noqa: ARG002 - one interface for all invariants
        self._note(state)

    def _note(self, state: ElectionState) -> None:
        if state.leader_id >= 0:
            leader = self.leaders.setdefault(state.epoch, state.leader_id)
            if leader != state.leader_id:
                self.fail(f"epoch {state.epoch} is led by {leader} and by {state.leader_id}")
