"""The base class of invariants: hooks for what a step changed."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch, ElectionState
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.snapshot import Snapshot
    from kraftlog_simulator.voter_change import VoterChange


class Invariant:
    """One property of every run; a subclass overrides the hooks that it needs."""

    name = ""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.oracle = world.oracle

    @classmethod
    def implements(cls, hook: str) -> bool:
        return getattr(cls, hook) is not getattr(Invariant, hook)

    def fail(self, detail: str) -> NoReturn:
        raise Violation(self.name, detail)

    def on_start(self, replica: Replica) -> None:
        """A process has recovered from its disk, and sent nothing yet."""

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        """The role or the election state changed; the replica's `seen_…` have the old ones."""

    def on_voters(self, replica: Replica, core: RaftCore) -> None:
        """Voters records were appended or truncated; `seen_voter_set` was in force before."""

    def on_change(self, change: VoterChange, end_offset: int) -> None:
        """A change that ends at this offset was reported to an administrator as committed."""

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        """The high watermark of a replica has changed."""

    def on_persist(self, replica: Replica, state: ElectionState) -> None:
        """An election state has reached the disk."""

    def on_append(self, replica: Replica, batch: Batch) -> None:
        """A batch was appended, and no replica had this log before.

        Otherwise the same log was checked when the first replica had it.
        """

    def on_truncate(self, replica: Replica, offset: int) -> None:
        """The log on the disk is about to be truncated to `offset`."""

    def on_apply(self, replica: Replica, offset: int) -> None:
        """The state machine was notified that everything before `offset` is committed."""

    def on_load(self, replica: Replica, snapshot: Snapshot) -> None:
        """A fetched snapshot is about to replace the log and the state machine."""

    def on_snapshot(self, replica: Replica, core: RaftCore) -> None:
        """The core's log now starts at a new snapshot."""

    def on_serve(self, replica: Replica, epoch: int) -> None:
        """The state machine was notified that it leads in an epoch."""

    def on_send(self, replica: Replica, to: Replica, body: Any) -> None:
        """A message is sent."""

    def on_receive(self, replica: Replica, sender: Replica, body: Any) -> None:
        """A request was delivered and handled, unless the process crashed."""

    def on_full_check(self) -> None:
        """Check everything, periodically and at the end."""

    def on_end(self) -> None:
        """The run is over."""


HOOKS = tuple([name for name in vars(Invariant) if name.startswith("on_")])
