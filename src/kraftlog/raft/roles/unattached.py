"""Unattached: a voter that knows no leader of its epoch; it looks for one until it campaigns."""

from __future__ import annotations

from kraftlog.raft import elections, fetching, jitter_purposes, quorum
from kraftlog.raft.roles.campaigning import Campaigning
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core


#: A response that names no leader causes the same backoff as this many failures.
FAILURES_IF_NO_LEADER = 3
#: One in this many discovery requests goes to a peer that is down.
DOWN_PEER_ODDS = 4


class Unattached(Campaigning, Role):
    """Fetches from random controllers until a response names the leader (Q24, Q32)."""

    __slots__ = ()
    name = quorum.UNATTACHED

    def enter(self, core: Core) -> None:
        if not core.others:
            core.become(quorum.PROSPECTIVE)  # a sole voter need not wait (Q1)
            return
        core.arm("election", election_delay(core))
        core.arm(
            "discover", core.jitter(jitter_purposes.DISCOVERY, below=core.config.retry_backoff_ms)
        )

    def on_timer(self, core: Core, name: str) -> None:
        if name == "election":
            core.become(quorum.PROSPECTIVE)  # Q9d
        elif name == "discover":
            discover(core)
        else:
            self.on_campaign_timer(core, name)

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:  # noqa: ARG002 - one interface for all roles
        """The peer knows no leader either, or this replica would follow that leader by now."""
        core.arm("discover", core.backoff(FAILURES_IF_NO_LEADER))

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:  # noqa: ARG002 - one interface for all roles
        core.arm("discover", core.backoff(core.peer(peer).failures))


def election_delay(core: Core) -> int:
    """How long to wait for a leader: T to 2T, and after a failed attempt the backoff (Q10)."""
    config = core.config
    if core.attempt:
        # Up to 100 ms after the first lost campaign, then twice as long after each.
        bound = min(50 << min(core.attempt, 16), config.election_backoff_max_ms)
        return 1 + core.jitter(jitter_purposes.ELECTION_BACKOFF, below=bound)
    return config.election_timeout_ms + core.jitter(
        jitter_purposes.LEADER_WAIT, below=config.election_timeout_ms
    )


def discover(core: Core) -> None:
    """Fetch from a random controller: its response names the leader, if it knows one.

    A leader of this epoch that was found dead may also be chosen, even if this log does not have it
    as a voter.
    """
    controllers = elections.known_controllers(core)
    epoch = core.election.epoch
    lost = [i for i, peer in core.peers.items() if peer.is_down and peer.down_in_epoch == epoch]
    controllers += [i for i in lost if i not in controllers]
    now = core.now.monotonic_ms
    down = [i for i in controllers if core.peer(i).is_down]
    if 0 < len(down) < len(controllers):
        # A peer that counts as down may have restarted, or was never down. Until it responds,
        # other peers cannot name it as the leader, so it is asked now and then.
        asks_down = core.jitter(jitter_purposes.DOWN_PEER, now, below=DOWN_PEER_ODDS) == 0
        controllers = down if asks_down else [i for i in controllers if i not in down]
    if controllers:
        chosen = core.jitter(jitter_purposes.DISCOVERED_PEER, now, below=len(controllers))
        fetching.fetch_from(core, controllers[chosen])
