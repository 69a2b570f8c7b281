"""I17: a leader is elected by voters of its own log, each with its own directory id.

Source: R8, Q12, KIP-853; a voter that returns with an empty disk is another replica.
"""

from __future__ import annotations

from kraftlog.raft.messages import VoteResult
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class ElectedByVoters(Invariant):
    name = "elected by voters"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: The granted votes, by epoch and candidate.
        self.granted: dict[tuple[int, int], set[ReplicaKey]] = {}

    def on_send(self, replica: Replica, to: Replica, body: Any) -> None:
        if type(body) is VoteResult and body.granted:
            self.granted.setdefault((body.epoch, to.id), set()).add(replica.key)

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        seen = replica.seen_role
        if core.role.name != "leader" or (seen is not None and seen.name == "leader"):
            return
        # The first record of its epoch may be a voters record, but with the same voters.
        voters, epoch = core.log.voter_set, core.election.epoch
        granted = {*self.granted.get((epoch, replica.id), ()), core.me}
        electors = {key.id for key in granted if voters.holds(key)} & set(core.granted)
        if len(electors) < voters.majority:
            self.fail(
                f"replica {replica.id} leads epoch {epoch} by the votes of {core.granted}; "
                f"of the voters of its log, {voters.ids}, only {sorted(electors)} voted for it"
            )
