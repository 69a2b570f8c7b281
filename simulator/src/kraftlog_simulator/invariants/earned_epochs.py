"""P3: a replica starts an epoch with a majority of pre-votes, or as a named successor.

Source: P1, P3, Q9, Q17; KIP-996: a disconnected replica returns with the epoch that it left with.
"""

from __future__ import annotations

from kraftlog.raft.messages import EndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class EarnedEpochs(Invariant):
    name = "earned epochs"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: Successors named by resigning leaders, each with the epoch of that leader.
        self.successors: set[tuple[int, int]] = set()
        #: The epoch in which each replica campaigns, or was elected.
        self.epochs: dict[int, int] = {}

    def on_send(self, replica: Replica, to: Replica, body: Any) -> None:  # noqa: ARG002 - one interface for all invariants
        if type(body) is EndEpoch and any(key.id == to.id for key in body.successors):
            self.successors.add((to.id, body.epoch))

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        before, epoch = replica.seen_role, core.election.epoch
        if core.role.name not in {"candidate", "leader"} or epoch == self.epochs.get(replica.id):
            return
        self.epochs[replica.id] = epoch
        had_pre_vote = before is not None and before.name == "prospective"
        granted = before.granted if had_pre_vote else ()
        majority = core.log.voter_set.majority
        if (
            majority > 1
            and len(granted) < majority
            and (replica.id, epoch - 1) not in self.successors
        ):
            self.fail(
                f"replica {replica.id} made epoch {epoch} after "
                f"{before.name if before else 'a restart'}, with pre-votes of {granted}"
            )
