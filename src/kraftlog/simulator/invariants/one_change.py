"""I11: voters change one at a time, after a record of the leader's epoch is committed.

On the way to a target no leader removes itself. Source: R3, R5; Ongaro's correction of 2015;
Kafka's VoterSet, the KRaft specification in TLA+.
"""

from __future__ import annotations

from itertools import pairwise

from kraftlog.raft.roles.leader import Leader
from kraftlog.simulator.invariants.invariant import Invariant
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.logstate.voters import Voter, VoterSet
    from kraftlog.raft.core import RaftCore
    from kraftlog.simulator.process import Replica


class OneChange(Invariant):
    name = "one change"

    def on_voters(self, replica: Replica, core: RaftCore) -> None:
        voters, committed = core.log.voters, self.world.known_to_be_committed
        entries = [(-1, voters.base), *voters.entries]
        changes = 0
        for (_, before), (offset, now) in pairwise(entries):
            if before.voters == now.voters:
                continue  # only the targets or the cluster id changed
            members = members_changed(before, now)
            # A replica that was formatted with the current voters finds older ones in the log.
            if members > 1 and offset > 0:
                self.fails(f"replica {replica.id}: {members} members changed at {offset}")
            changes += offset >= committed
        if changes > 1:
            self.fails(
                f"replica {replica.id} has {changes} changes of voters after {committed}: "
                f"{[(offset, entry.ids) for offset, entry in voters.entries]}"
            )
        self._own_epoch(replica, core)

    def _own_epoch(self, replica: Replica, core: RaftCore) -> None:
        role, log = core.role, core.log
        if not isinstance(role, Leader) or log.voters.latest_offset <= role.epoch_start:
            return
        entries = [(-1, log.voters.base), *log.voters.entries]
        changed = len(entries) > 1 and entries[-1][1].voters != entries[-2][1].voters
        if changed and log.high_watermark <= role.epoch_start:
            self.fails(
                f"leader {replica.id} changed the voters before it had committed a record of epoch "
                f"{core.election.epoch}"
            )
        before = entries[-2][1] if len(entries) > 1 else log.voter_set
        if before.targets is not None and before.holds(core.me) and not core.is_voter:
            self.fails(f"leader {replica.id} removed itself on the way to {before.targets}")


def members_changed(before: VoterSet, now: VoterSet) -> int:
    """How many voters were added or removed, or have a new directory id or address."""
    ids = {*before.ids, *now.ids}
    return sum([_differs(before.voter(one), now.voter(one)) for one in ids])


def _differs(before: Voter | None, now: Voter | None) -> int:
    """2 if the id stands for another replica: one was removed and one added."""
    if before == now:
        return 0
    same = before is None or now is None or before.key == now.key
    return 1 if same or (before is not None and not any(before.key.directory_id)) else 2
