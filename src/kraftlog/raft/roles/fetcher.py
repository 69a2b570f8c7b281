"""What follower and observer share: one fetch to the leader after the other."""

from __future__ import annotations

from kraftlog.raft import fetching, snapshots
from kraftlog.raft.messages import Fetch, SnapshotFetch
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.snapshots import Download

NEVER = -1


class Fetcher(Role):
    """`heard_at` is when the leader last answered well: only that resets the fetch timeout."""

    __slots__ = ("download", "heard_at")

    def __init__(self) -> None:
        self.heard_at = NEVER
        #: A snapshot that is being fetched; another leader or epoch abandons it.
        self.download: Download | None = None

    def key(self) -> tuple[Any, ...]:
        download = self.download and (self.download.id.offset, self.download.position)
        return self.heard_at != NEVER, download

    def begin(self, core: RaftCore) -> None:
        core.arm("fetch timeout", core.config.fetch_timeout_ms)
        self.again(core)

    def hears_a_leader(self, core: RaftCore) -> bool:
        leader = core.election.leader_id
        if leader < 0 or self.heard_at == NEVER or core.peer(leader).gone:
            return False
        return core.now.monotonic_ms - self.heard_at < core.config.fetch_timeout_ms

    def on_answer(self, core: RaftCore, peer: int, asked: Any, body: Any) -> None:
        if peer != core.election.leader_id:
            return
        if isinstance(asked, SnapshotFetch):
            good = snapshots.take(core, self, body)
        elif isinstance(asked, Fetch):
            good = fetching.take(core, body)
        else:
            return
        if core.role is not self:
            return
        if not good:
            core.arm("fetch", core.backoff(0))
            return
        core.is_confirmed = True
        self.heard_at = core.now.monotonic_ms
        core.arm("fetch timeout", core.config.fetch_timeout_ms)
        if isinstance(asked, Fetch):
            if body.snapshot is not None:
                snapshots.begin(core, self, body.snapshot)
            else:
                fetching.fetch_from(core, peer)

    def again(self, core: RaftCore) -> None:
        """Go on with what was interrupted; while a snapshot is being installed, when that is done
        (`on_snapshot_installed`)."""
        if core.log.installing is not None:
            return
        if self.download is not None:
            snapshots.go_on(core, self)
        else:
            fetching.fetch_from(core, core.election.leader_id)

    def on_snapshot_installed(self, core: RaftCore) -> None:
        self.download = None
        if core.election.leader_id >= 0:
            fetching.fetch_from(core, core.election.leader_id)

    def on_snapshot_damaged(self, core: RaftCore) -> None:
        self.download = None
        if core.election.leader_id >= 0:
            core.arm("fetch", core.config.retry_backoff_max_ms)

    def on_no_answer(self, core: RaftCore, peer: int, asked: Any) -> None:  # noqa: ARG002 - roles are asked alike
        core.arm("fetch", core.backoff(core.peer(peer).failures))
