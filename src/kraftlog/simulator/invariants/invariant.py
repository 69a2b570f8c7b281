"""What all invariants share: they are shown what a step changed, and complain."""

from __future__ import annotations

from kraftlog.simulator.violation import Violation
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch, ElectionState
    from kraftlog.simulator.administrator import VoterChange
    from kraftlog.simulator.replica import Replica
    from kraftlog.simulator.snapshot import Snapshot
    from kraftlog.simulator.world import World


class Invariant:
    """One property. It overrides what it wants to be shown; the rest costs nothing."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self.oracle = world.oracle

    @classmethod
    def implements(cls, hook: str) -> bool:
        return getattr(cls, hook) is not getattr(Invariant, hook)

    def fails(self, detail: str) -> NoReturn:
        raise Violation(self.name, detail)

    def on_start(self, replica: Replica) -> None:
        """A process has read its disk, and said nothing yet."""

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        """The role or the election state is another; the replica's `seen_…` hold the old ones."""

    def on_voters(self, replica: Replica, core: RaftCore) -> None:
        """Records of voters came to the replica's log, or left it; `seen_set` was in force."""

    def on_change(self, change: VoterChange, end_offset: int) -> None:
        """An administrator was told that a change is committed, before this offset."""

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        """What the replica takes for committed grew (or shrank, which one of us forbids)."""

    def on_persist(self, replica: Replica, state: ElectionState) -> None:
        """An election state has reached the disk."""

    def on_append(self, replica: Replica, batch: Batch) -> None:
        """The last batch on the replica's disk makes a log that nobody had before.

        A log that somebody had was looked at then, batch for batch.
        """

    def on_truncate(self, replica: Replica, offset: int) -> None:
        """The log on the disk is about to be cut at `offset`."""

    def on_apply(self, replica: Replica, offset: int) -> None:
        """The state machine was told that everything before `offset` is committed."""

    def on_load(self, replica: Replica, snapshot: Snapshot) -> None:
        """A fetched snapshot is about to take the place of the log and the state machine."""

    def on_snapshot(self, replica: Replica, core: RaftCore) -> None:
        """The core's log starts behind another snapshot."""

    def on_serve(self, replica: Replica, epoch: int) -> None:
        """The state machine was told that it leads."""

    def on_say(self, replica: Replica, to: Replica, body: Any) -> None:
        """A message leaves."""

    def on_heard(self, replica: Replica, asker: Replica, body: Any) -> None:
        """A request was handled, unless the process crashed meanwhile."""

    def on_full_check(self) -> None:
        """Now and then, and in the end: look at everything."""

    def on_end(self) -> None:
        """The run is over."""


HOOKS = tuple([name for name in vars(Invariant) if name.startswith("on_")])
