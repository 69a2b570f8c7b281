"""I11: a leader reports a removal only to a replica that a committed voters record leaves out.

Source: R7; the removed replica does not campaign any more.
"""

from __future__ import annotations

from kraftlog.raft.messages import FetchResult
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.process import Replica


class RemovalsCommitted(Invariant):
    name = "removals committed"

    def on_send(self, replica: Replica, to: Replica, body: Any) -> None:
        if type(body) is not FetchResult or body.removed_at < 0:
            return
        assert replica.core is not None
        voters = replica.core.log.voters.committed(body.removed_at + 1)
        committed = self.world.known_committed_end
        if body.removed_at >= committed or voters.holds(to.key):
            self.fail(
                f"replica {replica.id} reports to {to.id} a removal at {body.removed_at}; "
                f"committed is {committed}, and the voters there are {voters.ids}"
            )
