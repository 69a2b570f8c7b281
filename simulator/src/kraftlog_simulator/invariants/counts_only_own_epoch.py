"""I5 for the leader: it counts only replicas that have reached its epoch.

Source: Q18; KIP-320's first design accepted fetches of an older epoch, KIP-595 fences them.
"""

from __future__ import annotations

from kraftlog.raft.messages import Fetch
from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.process import Replica


class CountsOnlyOwnEpoch(Invariant):
    name = "counts only own epoch"

    def on_receive(self, replica: Replica, sender: Replica, body: Any) -> None:
        core = replica.core
        # A disk restored from an old copy may lack the epoch.
        if core is None or sender.disk.election.epoch >= core.election.epoch or sender.disk_losses:
            return
        if type(body) is not Fetch or not isinstance(core.role, Leader):
            return
        progress = core.role.progress.replicas.get(body.replica)
        if progress is not None and progress.end_offset >= 0 and sender.key == body.replica:
            self.fail(
                f"leader {replica.id} of epoch {core.election.epoch} counts {sender.id}, which "
                f"is in epoch {sender.disk.election.epoch}"
            )
