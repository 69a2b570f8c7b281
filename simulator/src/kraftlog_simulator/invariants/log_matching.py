"""I7: two logs with a record of the same offset and epoch are equal up to there.

Source: Raft, section 5.3; the etcd specification in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class LogMatching(Invariant):
    name = "log matching"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: By base offset and epoch of a batch: the only chain (number of a log) that ends with it.
        self.chains: dict[tuple[int, int], int] = {}

    def on_append(self, replica: Replica, batch: Batch) -> None:
        chain = replica.disk.chains[-1]
        point = (batch.base_offset, batch.epoch)
        if self.chains.setdefault(point, chain) != chain:
            self.fail(
                f"replica {replica.id}: another log with offset {batch.base_offset} of epoch "
                f"{batch.epoch} has other records up to there"
            )
