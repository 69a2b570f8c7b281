"""Candidate: has voted for itself in a new epoch and requests the other voters' votes (Q13)."""

from __future__ import annotations

from kraftlog.raft import jitter_purposes, quorum
from kraftlog.raft.roles.campaigning import note_lost
from kraftlog.raft.roles.unattached import election_delay
from kraftlog.raft.roles.voter_poll import VoterPoll
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core


class Candidate(VoterPoll):
    """Its own vote counts once it is durable; after a lost election it backs off (Q10)."""

    __slots__ = ("has_lost",)
    name = quorum.CANDIDATE

    def __init__(self) -> None:
        super().__init__()
        self.has_lost = False

    def key(self) -> tuple[Any, ...]:
        return (*super().key(), self.has_lost)

    def enter(self, core: Core) -> None:
        timeout = core.config.election_timeout_ms
        core.arm("election", timeout + core.jitter(jitter_purposes.ELECTION_TIMEOUT, below=timeout))
        self.request_votes(core)
        self.on_persisted(core)

    def on_persisted(self, core: Core) -> None:
        if core.durable_election_version >= core.election_version:
            self.count(core, core.me.id, granted=True)

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:
        """Lose early if the dead voters leave no majority, so that a split vote ends at once."""
        super().on_no_response(core, peer, request)
        voters = core.log.voter_set
        down = [voter_id for voter_id in core.others if _is_known_down(core, voter_id)]
        if len({*self.refused, *down}) > len(voters.voters) - voters.majority:
            self.on_lost(core)

    def on_won(self, core: Core) -> None:
        if not self.has_lost:
            core.granted = tuple(sorted(self.granted))
            core.become(quorum.LEADER, core.election.replace(leader_id=core.me.id))

    def on_lost(self, core: Core) -> None:
        if "election" not in core.timers:
            core.become(quorum.PROSPECTIVE)  # the election timer has fired
        elif not self.has_lost:
            self.has_lost = True
            note_lost(core)
            core.arm("election", election_delay(core))


def _is_known_down(core: Core, voter_id: int) -> bool:
    """Whether a peer is known to be dead; with a request in flight, it may be back."""
    peer = core.peer(voter_id)
    return peer.is_down and peer.in_flight < 0
