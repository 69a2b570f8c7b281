"""Observer: replicates the log without voting.

A newer voter set, which it does not know yet, may contain it, so it still answers vote requests
(R8).
"""

from __future__ import annotations

from kraftlog.raft import jitter_purposes, quorum
from kraftlog.raft.roles.fetcher import Fetcher
from kraftlog.raft.roles.unattached import FAILURES_IF_NO_LEADER, discover
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core


class Observer(Fetcher):
    """Fetches from the leader, and looks for one without end (Q32)."""

    __slots__ = ()
    name = quorum.OBSERVER

    def enter(self, core: Core) -> None:
        if core.election.leader_id >= 0:
            self.begin(core)
        else:
            core.arm(
                "discover",
                core.jitter(jitter_purposes.OBSERVER_DISCOVERY, below=core.config.retry_backoff_ms),
            )

    def on_timer(self, core: Core, name: str) -> None:
        if name == "fetch timeout":
            self.lose_leader(core)
        elif name == "fetch":
            self.resume(core)
        elif name == "discover":
            discover(core)

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:
        if core.election.leader_id >= 0:
            super().on_response(core, peer, request, body)
        else:
            core.arm("discover", core.backoff(FAILURES_IF_NO_LEADER))

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:
        if core.election.leader_id >= 0:
            super().on_no_response(core, peer, request)
        else:
            core.arm("discover", core.backoff(core.peer(peer).failures))

    def on_peer_down(self, core: Core, peer: int, *, this_replica_lags: bool) -> None:  # noqa: ARG002 - one interface for all roles
        if peer == core.election.leader_id:
            self.lose_leader(core)

    @staticmethod
    def lose_leader(core: Core) -> None:
        core.become(quorum.OBSERVER, core.election.replace(leader_id=-1))
