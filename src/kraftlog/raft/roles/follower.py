"""Follower: a voter that knows the leader of its epoch and fetches from it."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.roles.campaigning import Campaigning
from kraftlog.raft.roles.fetcher import Fetcher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.interfaces import Core

#: When the leader's process is found dead, each voter waits this much longer than the
#: previous one.
STAGGER_MS = 100


class Follower(Campaigning, Fetcher):
    """Without a successful fetch for the fetch timeout it becomes prospective (Q9a)."""

    __slots__ = ()
    name = quorum.FOLLOWER

    def enter(self, core: Core) -> None:
        core.attempt = 0
        self.begin(core)

    def on_timer(self, core: Core, name: str) -> None:
        if name == "fetch timeout":
            core.become(quorum.PROSPECTIVE)
        elif name == "fetch":
            self.resume(core)
        else:
            self.on_campaign_timer(core, name)

    def on_peer_down(self, core: Core, peer: int, *, this_replica_lags: bool) -> None:
        """Treat the leader's death as a fetch timeout, staggered by voter.

        All voters notice it at almost the same time; if all campaigned at once, they would split
        the vote. Voters that first have to replay come last.
        """
        if peer != core.election.leader_id:
            return
        survivors = [voter_id for voter_id in core.log.voter_set.ids if voter_id != peer]
        # A voter that is being removed comes last.
        rank = survivors.index(core.me.id) if core.is_voter else len(survivors)
        if this_replica_lags:
            rank += len(survivors)
        if rank == 0:
            core.become(quorum.PROSPECTIVE)
        else:
            wait = min(rank * STAGGER_MS, core.config.fetch_timeout_ms)
            core.timers["fetch timeout"] = min(
                core.timers["fetch timeout"], core.now.monotonic_ms + wait
            )
