"""Prospective: would the others vote for it? Nothing is persisted, no epoch moves (P1)."""

from __future__ import annotations

from kraftlog.raft import elections, quorum
from kraftlog.raft.roles.campaigning import stand
from kraftlog.raft.roles.voter_poll import VoterPoll
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore


class Prospective(VoterPoll):
    """With a majority it stands; without, it is again what it was (P3)."""

    __slots__ = ()
    name = quorum.PROSPECTIVE
    pre_vote = True

    def enter(self, core: RaftCore) -> None:
        timeout = core.config.election_timeout_ms
        core.arm("election", timeout + core.jitter(5, below=timeout))
        self.ask_all(core)
        self.count(core, core.me.id, granted=True)

    def count(self, core: RaftCore, peer: int, *, granted: bool) -> None:
        """Who still hears a leader that is gone will notice within a moment: it is asked again."""
        leader = core.election.leader_id
        if granted or leader < 0 or not core.peer(leader).gone:
            super().count(core, peer, granted=granted)
        else:
            core.arm(f"ask {peer}", core.backoff(0))

    def won(self, core: RaftCore) -> None:
        stand(core)

    def lost(self, core: RaftCore) -> None:
        core.attempt += 1
        core.become(elections.role_in_epoch(core))

    def on_succession(self, core: RaftCore, position: int) -> None:  # noqa: ARG002 - it stands already, nearly
        stand(core)
