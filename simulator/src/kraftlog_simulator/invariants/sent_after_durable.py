"""I3: a replica's messages depend only on its durable epoch, vote and leadership.

Source: Q3, Q13; double votes after a crash in openraft and others.
"""

from __future__ import annotations

from kraftlog.raft.messages import VoteResult
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica


class SentAfterDurable(Invariant):
    name = "sent after durable"

    def on_send(self, replica: Replica, to: Replica, body: Any) -> None:
        written = replica.disk.election
        epoch = getattr(body, "epoch", -1)
        if epoch > written.epoch:
            self.fail(f"replica {replica.id} sends epoch {epoch}, the disk has {written}")
        if type(body) is VoteResult and body.granted:
            requester = to.core
            if (
                requester is not None
                and requester.role.name == "candidate"
                and requester.election.epoch == epoch == written.epoch
            ) and not (written.voted is not None and written.voted.id == to.id):
                self.fail(f"replica {replica.id} votes for {to.id}, the disk has {written}")

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        if core.role.name == "leader":
            written = replica.disk.election
            if not (written.epoch == core.election.epoch and written.voted == core.me):
                self.fail(f"replica {replica.id} leads by {core.election}, the disk has {written}")
