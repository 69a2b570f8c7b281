"""Follower: a voter that knows the leader of its epoch and fetches from it."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.roles.campaigning import Campaigning
from kraftlog.raft.roles.fetcher import Fetcher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore

#: After a leader's death is proved, each of the others leaves the one before it so much time.
TURN_MS = 100


class Follower(Campaigning, Fetcher):
    """Without a good answer for a fetch timeout it asks whether to stand (Q9a)."""

    __slots__ = ()
    name = quorum.FOLLOWER

    def enter(self, core: RaftCore) -> None:
        core.attempt = 0
        self.begin(core)

    def on_timer(self, core: RaftCore, name: str) -> None:
        if name == "fetch timeout":
            core.become(quorum.PROSPECTIVE)
        elif name == "fetch":
            self.again(core)
        else:
            self.on_campaign_timer(core, name)

    def on_peer_gone(self, core: RaftCore, peer: int, *, lags: bool) -> None:
        """Proof of death counts as a timeout, for one voter after the other.

        All of them see it within a moment; if they stood together, they would split the vote.
        Behind all the others come those that would have to replay before they could decide.
        """
        if peer != core.election.leader_id:
            return
        survivors = [voter_id for voter_id in core.log.voter_set.ids if voter_id != peer]
        # Last comes who is being removed.
        rank = survivors.index(core.me.id) if core.is_voter else len(survivors)
        if lags:
            rank += len(survivors)
        if rank == 0:
            core.become(quorum.PROSPECTIVE)
        else:
            wait = min(rank * TURN_MS, core.config.fetch_timeout_ms)
            core.timers["fetch timeout"] = min(
                core.timers["fetch timeout"], core.now.monotonic_ms + wait
            )
