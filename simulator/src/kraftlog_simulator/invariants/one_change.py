"""I11: voters change one at a time, after a record of the leader's epoch is committed.

A leader that is a voter does not remove itself while there are target voters. Source: R3, R5;
Ongaro's correction of 2015; Kafka's VoterSet, the KRaft specification in TLA+.
"""

from __future__ import annotations

from itertools import pairwise

from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.logstate.voters import Voter, VoterSet
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica


class OneChange(Invariant):
    name = "one change"

    def on_voters(self, replica: Replica, core: RaftCore) -> None:
        voters, committed = core.log.voters, self.world.known_committed_end
        entries = [(-1, voters.base), *voters.entries]
        changes = 0
        for (_, before), (offset, after) in pairwise(entries):
            if before.voters == after.voters:
                continue  # only the targets or the cluster id changed
            if before.kraft_version < after.kraft_version and before.ids == after.ids:
                continue  # kraft.version was raised: the directory ids of all became known
            members = members_changed(before, after)
            # A replica that was formatted with the current voters fetches older voters records.
            if members > 1 and offset > 0:
                self.fail(f"replica {replica.id}: {members} members changed at {offset}")
            changes += offset >= committed
        if changes > 1:
            self.fail(
                f"replica {replica.id} has {changes} changes of voters after {committed}: "
                f"{[(offset, entry.ids) for offset, entry in voters.entries]}"
            )
        self._check_leader(replica, core)

    def _check_leader(self, replica: Replica, core: RaftCore) -> None:
        role, log = core.role, core.log
        if not isinstance(role, Leader) or log.voters.latest_offset <= role.epoch_start:
            return
        entries = [(-1, log.voters.base), *log.voters.entries]
        changed = len(entries) > 1 and entries[-1][1].voters != entries[-2][1].voters
        if changed and log.high_watermark <= role.epoch_start:
            self.fail(
                f"leader {replica.id} changed the voters before it had committed a record of epoch "
                f"{core.election.epoch}"
            )
        before = entries[-2][1] if len(entries) > 1 else log.voter_set
        if before.targets is not None and before.holds(core.me) and not core.is_voter:
            self.fail(
                f"leader {replica.id} removed itself before it reached the targets {before.targets}"
            )


def members_changed(before: VoterSet, after: VoterSet) -> int:
    """How many voters were added or removed, or have a new directory id or address.

    A record that raises kraft.version is one change: it records the directory ids of all voters.
    """
    ids = {*before.ids, *after.ids}
    changes = [_changes(before.voter(voter_id), after.voter(voter_id)) for voter_id in ids]
    raises_level = before.kraft_version < after.kraft_version and max(changes) == 1
    return 1 if raises_level and before.ids == after.ids else sum(changes)


def _changes(before: Voter | None, after: Voter | None) -> int:
    """0 to 2; 2 if the id stands for another replica: one was removed and one added."""
    if before == after:
        return 0
    if before is None or after is None or before.key == after.key:
        return 1
    was_unknown = not any(before.key.directory_id)  # only the directory id became known
    return 1 if was_unknown else 2
