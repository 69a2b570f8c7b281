"""What followers and observers share: fetching from the leader, one request at a time."""

from __future__ import annotations

from kraftlog.raft import fetching, snapshots
from kraftlog.raft.messages import Fetch, SnapshotFetch
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core
    from kraftlog.raft.snapshots import Download

NEVER = -1


class Fetcher(Role):
    """Fetches from the leader; `heard_at` is the time of the leader's last successful response."""

    __slots__ = ("download", "heard_at")

    def __init__(self) -> None:
        self.heard_at = NEVER
        #: The snapshot that is being fetched; a new leader or epoch abandons it.
        self.download: Download | None = None

    def key(self) -> tuple[Any, ...]:
        download = self.download and (self.download.id.offset, self.download.position)
        return self.heard_at != NEVER, download

    def begin(self, core: Core) -> None:
        core.arm("fetch timeout", core.config.fetch_timeout_ms)
        self.resume(core)

    def has_live_leader(self, core: Core) -> bool:
        leader = core.election.leader_id
        if leader < 0 or self.heard_at == NEVER or core.peer(leader).is_down:
            return False
        return core.now.monotonic_ms - self.heard_at < core.config.fetch_timeout_ms

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:
        if peer != core.election.leader_id:
            return
        if isinstance(request, SnapshotFetch):
            applied = snapshots.apply(core, self, body)
        elif isinstance(request, Fetch):
            applied = fetching.apply(core, body)
        else:
            return
        if body.error:
            core.adapt_role()  # the leader may have reported this replica's removal (R7)
        if core.role is not self:
            return
        if not applied:
            core.arm("fetch", core.backoff(0))
            return
        core.is_cluster_id_confirmed = True
        self.heard_at = core.now.monotonic_ms
        core.arm("fetch timeout", core.config.fetch_timeout_ms)
        if isinstance(request, Fetch):
            if body.snapshot is not None:
                snapshots.begin(core, self, body.snapshot)
            else:
                fetching.fetch_from(core, peer)

    def resume(self, core: Core) -> None:
        """Continue after an interruption, unless a snapshot is being installed."""
        if core.log.installing is not None:
            return
        if self.download is not None:
            snapshots.fetch_next_chunk(core, self)
        else:
            fetching.fetch_from(core, core.election.leader_id)

    def on_snapshot_installed(self, core: Core) -> None:
        self.download = None
        if core.election.leader_id >= 0:
            fetching.fetch_from(core, core.election.leader_id)

    def on_snapshot_damaged(self, core: Core) -> None:
        self.download = None
        if core.election.leader_id >= 0:
            core.arm("fetch", core.config.retry_backoff_max_ms)

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:  # noqa: ARG002 - one interface for all roles
        core.arm("fetch", core.backoff(core.peer(peer).failures))
