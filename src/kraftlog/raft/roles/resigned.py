"""Resigned: was the leader of this epoch. It appends nothing and grants no vote in it.

After a clean resignation or a restart it sends EndQuorumEpoch with its successors to every
voter, until each has responded (Q17); after losing its majority it sends nothing.
"""

from __future__ import annotations

from kraftlog.raft import jitter_purposes, quorum
from kraftlog.raft.messages import EndEpoch
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.raft.interfaces import Core


class Resigned(Role):
    """A former leader; `unnotified` are the voters that have not responded yet."""

    __slots__ = ("successors", "unnotified")
    name = quorum.RESIGNED

    def __init__(self) -> None:
        self.unnotified: tuple[int, ...] = ()
        self.successors: tuple[ReplicaKey, ...] = ()

    def key(self) -> tuple[Any, ...]:
        return (self.unnotified,)

    def enter(self, core: Core) -> None:
        timeout = core.config.election_timeout_ms
        core.arm("election", timeout + core.jitter(jitter_purposes.RESIGNED_WAIT, below=timeout))

    def announce_resignation(self, core: Core, successors: tuple[ReplicaKey, ...]) -> None:
        self.successors = successors
        self.unnotified = tuple(core.others)
        for peer in self.unnotified:
            self.send_end(core, peer)

    def send_end(self, core: Core, peer: int) -> None:
        core.send(peer, EndEpoch(core.cluster_id, core.me.id, core.election.epoch, self.successors))

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:  # noqa: ARG002 - one interface for all roles
        self.unnotified = tuple([voter_id for voter_id in self.unnotified if voter_id != peer])

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:  # noqa: ARG002 - as above
        if peer in self.unnotified:
            core.arm(f"end-epoch {peer}", core.backoff(core.peer(peer).failures))

    def on_timer(self, core: Core, name: str) -> None:
        if name == "election":
            if core.may_campaign:
                core.become(quorum.PROSPECTIVE)
            else:  # it was removed, and has not learned of a new leader
                core.become(quorum.OBSERVER, core.election.replace(leader_id=-1))
        elif name.startswith("end-epoch "):
            self.send_end(core, int(name.split()[1]))
