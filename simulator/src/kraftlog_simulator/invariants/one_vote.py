"""I3: a replica votes once in an epoch, also across crashes.

Source: Q2, Q12; double votes after a crash in openraft and others.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class OneVote(Invariant):
    name = "one vote"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: The vote, by replica, how often it has lost its disk, and epoch.
        self.votes: dict[tuple[int, int, int], Any] = {}

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        if core.durable_election_version >= core.election_version:
            self._note(replica, core.election)

    def on_persist(self, replica: Replica, state: ElectionState) -> None:
        self._note(replica, state)

    def _check_vote(self, replica: Replica, epoch: int, candidate: Any) -> None:
        first = self.votes.setdefault((replica.id, replica.disk_losses, epoch), candidate)
        if first != candidate:
            self.fail(
                f"replica {replica.id} voted in epoch {epoch} for {first} and for {candidate}"
            )

    def _note(self, replica: Replica, state: ElectionState) -> None:
        if state.voted is not None:
            self._check_vote(replica, state.epoch, state.voted)
