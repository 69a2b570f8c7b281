"""The interface of all roles, with the default behaviour."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft import snapshots
from kraftlog.raft.messages import FetchResult, ReadOffsetResult
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core
    from kraftlog.raft.messages import Fetch, ReadOffset, Request, SnapshotFetch


class Role:
    """Base class of the roles: plain data and decisions; the core keeps what survives a role."""

    __slots__: tuple[str, ...] = ()
    name = ""

    def enter(self, core: Core) -> None:
        """Begin the role: arm timers and send requests."""

    def leave(self, core: Core) -> None:
        """End the role; its timers and requests are dropped already."""

    def has_live_leader(self, core: Core) -> bool:  # noqa: ARG002 - one interface for all roles
        """Whether it leads or has recently heard from a leader; then it grants no pre-vote."""
        return False

    def on_timer(self, core: Core, name: str) -> None:
        """A timer of this role is due."""

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:
        """A response of this epoch to a request of this role."""

    def on_stale_response(self, core: Core, peer: int, request: Any) -> None:
        """The peer is in an older epoch; the same as no response."""
        self.on_no_response(core, peer, request)

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:
        """A request got no response; the peer's failures are counted."""

    def on_peer_down(self, core: Core, peer: int, *, this_replica_lags: bool) -> None:
        """The peer's process is dead; a replica that lags should not campaign first."""

    def on_flushed(self, core: Core) -> None:
        """More of the log is durable."""

    def on_persisted(self, core: Core) -> None:
        """The election state is durable."""

    def on_succession(self, core: Core, position: int) -> None:
        """A resigning leader named this replica; position 0 is the preferred successor (Q17)."""

    def on_fetch(self, core: Core, request: Request, fetch: Fetch) -> None:  # noqa: ARG002 - as above
        """Q18: a replica that does not lead names the leader, and checks nothing."""
        core.reply(
            request.pending,
            FetchResult(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=-1,
                **core.leader_and_epoch,
            ),
        )

    def on_snapshot_fetch(self, core: Core, request: Request, fetch: SnapshotFetch) -> None:
        core.reply(
            request.pending, snapshots.chunk_response(core, fetch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )

    def on_snapshot_installed(self, core: Core) -> None:
        """The log has been replaced by a snapshot that this role fetched."""

    def on_snapshot_damaged(self, core: Core) -> None:
        """A snapshot that this role fetched is corrupt."""

    def on_read(self, core: Core, pending: object, read: ReadOffset) -> None:  # noqa: ARG002 - as above
        response = ReadOffsetResult(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER, offset=-1, **core.leader_and_epoch
        )
        core.reply(pending, response)

    def key(self) -> tuple[Any, ...]:
        """The state for comparison, without times."""
        return ()

    def copy(self) -> Role:
        """Copy the state, for the explorer."""
        twin = type(self)()
        for cls in type(self).__mro__:
            for name in getattr(cls, "__slots__", ()):
                value = getattr(self, name)
                setattr(twin, name, value.copy() if hasattr(value, "copy") else value)
        return twin
