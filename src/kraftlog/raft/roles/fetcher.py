"""What follower and observer share: one fetch to the leader after the other."""

from __future__ import annotations

from kraftlog.raft import fetching
from kraftlog.raft.messages import Fetch
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore

NEVER = -1


class Fetcher(Role):
    """`heard_at` is when the leader last answered well: only that resets the fetch timeout."""

    __slots__ = ("heard_at",)

    def __init__(self) -> None:
        self.heard_at = NEVER

    def begin(self, core: RaftCore) -> None:
        core.arm("fetch timeout", core.config.fetch_timeout_ms)
        fetching.fetch_from(core, core.election.leader_id)

    def hears_a_leader(self, core: RaftCore) -> bool:
        leader = core.election.leader_id
        if leader < 0 or self.heard_at == NEVER or core.peer(leader).gone:
            return False
        return core.now.monotonic_ms - self.heard_at < core.config.fetch_timeout_ms

    def on_answer(self, core: RaftCore, peer: int, asked: Any, body: Any) -> None:
        if not isinstance(asked, Fetch) or peer != core.election.leader_id:
            return
        if not fetching.take(core, body):
            core.arm("fetch", core.backoff(0))
        elif core.role is self:
            self.heard_at = core.now.monotonic_ms
            core.arm("fetch timeout", core.config.fetch_timeout_ms)
            fetching.fetch_from(core, peer)

    def on_no_answer(self, core: RaftCore, peer: int, asked: Any) -> None:  # noqa: ARG002 - roles are asked alike
        core.arm("fetch", core.backoff(core.peer(peer).failures))
