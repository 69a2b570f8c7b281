"""I4: the high watermark never decreases, on a running replica and from leader to leader.

Source: Q21, Q22; Kafka's MonotonicHighWatermark.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class HighWatermarkGrows(Invariant):
    name = "high watermark grows"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        self.newest_epoch = 0

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:
        seen = replica.seen_high_watermark
        if high_watermark < seen:
            self.fail(f"replica {replica.id}: high watermark {high_watermark} after {seen}")
        if high_watermark > core.log.end:
            self.fail(
                f"replica {replica.id}: high watermark {high_watermark}, log end {core.log.end}"
            )
        epoch = core.election.epoch
        if core.role.name == "leader" and epoch >= self.newest_epoch:
            self.newest_epoch = epoch
            if high_watermark < self.oracle.committed_end:
                self.fail(
                    f"leader {replica.id} of epoch {epoch} has high watermark {high_watermark}, "
                    f"but {self.oracle.committed_end} was committed before"
                )
