"""Prospective: asks for pre-votes. It persists nothing and keeps its epoch (P1)."""

from __future__ import annotations

from kraftlog.raft import elections, jitter_purposes, quorum
from kraftlog.raft.roles.campaigning import campaign, note_lost
from kraftlog.raft.roles.voter_poll import VoterPoll
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.interfaces import Core


class Prospective(VoterPoll):
    """With a majority it becomes a candidate; otherwise it returns to its previous role (P3)."""

    __slots__ = ()
    name = quorum.PROSPECTIVE
    pre_vote = True

    def enter(self, core: Core) -> None:
        timeout = core.config.election_timeout_ms
        core.arm("election", timeout + core.jitter(jitter_purposes.PRE_VOTE_TIMEOUT, below=timeout))
        self.request_votes(core)
        self.count(core, core.me.id, granted=True)

    def count(self, core: Core, peer: int, *, granted: bool) -> None:
        """Count a pre-vote; ask a voter again if it has not yet noticed that the leader is dead."""
        leader = core.election.leader_id
        if granted or leader < 0 or not core.peer(leader).is_down:
            super().count(core, peer, granted=granted)
        else:
            core.arm(f"ask {peer}", core.backoff(0))

    def on_won(self, core: Core) -> None:
        campaign(core)

    def on_lost(self, core: Core) -> None:
        note_lost(core)
        core.become(elections.role_in_epoch(core))

    def on_succession(self, core: Core, position: int) -> None:  # noqa: ARG002 - it campaigns already
        campaign(core)
