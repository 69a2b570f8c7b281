"""I8: a new leader has everything that was committed before.

Source: Q12; Raft, section 5.4; the KRaft, etcd and KIP-966 specifications in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class LeaderCompleteness(Invariant):
    name = "leader completeness"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        self.newest_epoch = 0

    def on_role(self, replica: Replica, core: RaftCore) -> None:
        epoch = core.election.epoch
        if core.role.name != "leader" or epoch <= self.newest_epoch:
            return
        self.newest_epoch = epoch
        committed, chains = self.oracle.committed, replica.disk.chains
        position = len(committed) - 1
        if not (
            position < 0 or (position < len(chains) and chains[position] == committed[position])
        ):
            self.fail(
                f"leader {replica.id} of epoch {epoch} lacks committed records: it ends at "
                f"{replica.disk.end}, committed is {self.oracle.committed_end}"
            )
