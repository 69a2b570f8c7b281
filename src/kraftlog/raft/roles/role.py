"""What every role can be asked, with the answer of a role that has nothing to do with it."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft import snapshots
from kraftlog.raft.messages import FetchResult, ReadOffsetResult
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Fetch, ReadOffset, Request, SnapshotFetch


class Role:
    """Plain data and decisions; everything that outlives a role is the core's."""

    __slots__: tuple[str, ...] = ()
    name = ""

    def enter(self, core: RaftCore) -> None:
        """The role begins: arm timers, ask peers."""

    def leave(self, core: RaftCore) -> None:
        """The role has ended; timers are gone and requests forgotten already."""

    def hears_a_leader(self, core: RaftCore) -> bool:  # noqa: ARG002 - roles are asked alike
        """Whether it leads or has lately heard who does: such a replica starts no revolt."""
        return False

    def on_timer(self, core: RaftCore, name: str) -> None:
        """A timer of this role is due."""

    def on_answer(self, core: RaftCore, peer: int, asked: Any, body: Any) -> None:
        """An answer of this epoch, to what this role has asked."""

    def on_old_answer(self, core: RaftCore, peer: int, asked: Any) -> None:
        """The peer has not arrived in this epoch yet: as good as no answer."""
        self.on_no_answer(core, peer, asked)

    def on_no_answer(self, core: RaftCore, peer: int, asked: Any) -> None:
        """The peer did not answer; its failures are counted."""

    def on_peer_gone(self, core: RaftCore, peer: int, *, lags: bool) -> None:
        """The peer's process is gone for certain; `lags`: this replica had better not lead."""

    def on_flushed(self, core: RaftCore) -> None:
        """More of the log is durable."""

    def on_persisted(self, core: RaftCore) -> None:
        """The election state is durable."""

    def on_succession(self, core: RaftCore, position: int) -> None:
        """A leader that leaves has named this replica as a successor, the best at 0 (Q17)."""

    def on_fetch(self, core: RaftCore, asked: Request, fetch: Fetch) -> None:  # noqa: ARG002 - as above
        """Q18: who does not lead says who does, and checks nothing."""
        core.reply(
            asked.slot,
            FetchResult(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                high_watermark=-1,
                **core.leader_and_epoch,
            ),
        )

    def on_snapshot_fetch(self, core: RaftCore, asked: Request, fetch: SnapshotFetch) -> None:
        core.reply(asked.slot, snapshots.refusal(core, fetch, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def on_snapshot_installed(self, core: RaftCore) -> None:
        """The log begins anew, behind a snapshot that this role has fetched."""

    def on_snapshot_damaged(self, core: RaftCore) -> None:
        """A snapshot that this role has fetched is not whole."""

    def on_read(self, core: RaftCore, slot: Any, read: ReadOffset) -> None:  # noqa: ARG002 - as above
        answer = ReadOffsetResult(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER, offset=-1, **core.leader_and_epoch
        )
        core.reply(slot, answer)

    def key(self) -> tuple[Any, ...]:
        """What tells two states of this role apart, but for times."""
        return ()

    def copy(self) -> Role:
        """A role of the same state, for exploring what may happen next."""
        twin = type(self)()
        for cls in type(self).__mro__:
            for name in getattr(cls, "__slots__", ()):
                value = getattr(self, name)
                setattr(twin, name, value.copy() if hasattr(value, "copy") else value)
        return twin
