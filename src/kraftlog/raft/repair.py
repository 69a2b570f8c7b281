"""After a majority is lost for good: new voters for what one replica has left. The deciding part.

The replica that is left can't know what the others had committed behind the end of its log, nor
which of its last records had been committed. So a plan says what may be lost, and is made only for
somebody who repeats that. What the log holds is kept, all of it.
"""

from __future__ import annotations

from kraftlog.errors import KraftlogError
from kraftlog.logstate.voters import VoterSet
from kraftlog.raft.messages import MAX_EPOCH, Batch, ElectionState, LeaderChange
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.raft.log import RaftLog

#: The epochs that the lost voters may have begun unseen are passed over: whoever of them comes
#: back has an older log than the repaired one, and gets no vote for it.
LEAP = 1000


class RepairRefusedError(KraftlogError):
    """Why there will be no repair, in words for whoever asked for one."""


class SurvivingState(Value):
    """What a replica's directory says."""

    me: ReplicaKey
    #: None where neither the log nor the directory says it.
    cluster_id: str | None
    election: ElectionState
    start: int
    end: int
    last_epoch: int
    #: Everything before is known to be committed; 0 when nothing is known.
    committed: int
    voters: VoterSet
    #: How many records at the end of the log are to be given up, from `end` on.
    dropped: int = 0

    @property
    def others(self) -> tuple[int, ...]:
        """The voters besides this replica."""
        return tuple([voter_id for voter_id in self.voters.ids if voter_id != self.me.id])

    @property
    def point(self) -> str:
        """Where the log ends: whoever accepts the loss of what may lie behind it says so."""
        return f"{self.end}@{self.last_epoch}"


class Plan(Value):
    """What to write: the election state first, then one batch at the end of the log."""

    election: ElectionState
    batch: Batch
    voters: VoterSet


def survivor_of(
    me: ReplicaKey,
    cluster_id: str | None,
    election: ElectionState,
    log: RaftLog,
    stored_ids: VoterSet,
) -> SurvivingState:
    """From what was recovered; where the log names no voters, those of the election state."""
    return SurvivingState(
        me=me,
        cluster_id=cluster_id,
        election=election,
        start=log.start,
        end=log.end,
        last_epoch=log.last_epoch,
        committed=max(log.high_watermark, log.start),
        voters=log.voter_set if log.voter_set.voters else stored_ids,
    )


def plan(remains: SurvivingState, voters: VoterSet, accepted: str | None, size_bytes: int) -> Plan:
    """What a repair writes; refused unless the voters make sense and the loss is accepted."""
    _check_voters(remains, voters)
    epoch = max(remains.election.epoch, remains.last_epoch) + LEAP
    if epoch > MAX_EPOCH:
        raise RepairRefusedError(f"epoch {epoch} is beyond the last there can be, {MAX_EPOCH}")
    if may_be_lost(remains) and accepted != remains.point:
        said = "is missing" if accepted is None else f"says {accepted}"
        raise RepairRefusedError(
            f"something may be lost, and the acceptance {said}: it has to say {remains.point}"
        )
    mine = [voter for voter in voters.voters if voter.key.id == remains.me.id]
    named = voters.with_voter(mine[0].replace(key=remains.me))
    named = named.replace(cluster_id=remains.voters.cluster_id or remains.cluster_id)
    change = LeaderChange(remains.me.id, named.ids, (remains.me.id,), named)
    raises_level = named.kraft_version > remains.voters.kraft_version
    last = remains.end + 1 + raises_level
    batch = Batch(remains.end, last, epoch, size_bytes, named, change)
    # A vote for itself, so that nobody else is elected in this epoch; it leads it no more.
    return Plan(ElectionState(epoch, -1, remains.me), batch, named)


def _check_voters(remains: SurvivingState, voters: VoterSet) -> None:
    if len(set(voters.ids)) < len(voters.ids):
        raise RepairRefusedError(f"voters {_listed(voters.ids)}: an id stands twice")
    if not voters.holds(remains.me):
        raise RepairRefusedError(
            f"the new voters are {_listed(voters.ids) or 'nobody'}, but this directory is that of "
            f"node {remains.me.id}: without it nothing of the log would be kept"
        )
    if not remains.end and not remains.start:
        raise RepairRefusedError("the log is empty: there is nothing to be repaired")


def may_be_lost(remains: SurvivingState) -> list[str]:
    """What a repair may lose, one thing a line; nothing if nobody else ever voted."""
    given_up = (
        f"{remains.dropped} records from offset {remains.end} on, and whatever they have changed: "
        "topics, partitions, settings. Partitions of topics that they made are set aside as strays"
    )
    dropped = [given_up] if remains.dropped else []
    if not remains.others and remains.me.id in remains.voters.ids:
        return dropped
    who = f"voters {_listed(remains.others)}" if remains.others else "voters nobody knows"
    where = f"offset {remains.end} (epoch {remains.last_epoch})"
    lost = f"whatever {who} had committed behind {where}: this directory can't say how much"
    return [*dropped, lost]


def described(remains: SurvivingState, voters: VoterSet) -> list[str]:
    """What is there and what will become of it, for whoever has to decide."""
    known = remains.voters
    log = f"a log from offset {remains.start} to {remains.end}, last epoch {remains.last_epoch}"
    node = f"node {remains.me.id} of cluster {remains.cluster_id or 'unknown'}"
    lines = [
        f"{node}, epoch {remains.election.epoch}: {log}",
        f"voters now: {_listed(known.ids) or 'unknown'}; voters then: {_listed(voters.ids)}",
    ]
    lost = may_be_lost(remains)
    lines += ["What may be lost for good:", *[f"  - {what}" for what in lost]] if lost else []
    tail = remains.end - remains.committed
    if lost and tail:
        lines += [
            "What is kept and counts as committed from then on, although it may not have been:",
            f"  - {tail} records from offset {remains.committed} on",
        ]
    if lost:
        lines += [
            f"If {known.majority} of the voters now can be started, start them instead.",
            "Never start the others again with what they have: empty their directories first.",
        ]
    new = [voter_id for voter_id in voters.ids if voter_id != remains.me.id]
    if new:
        lines += [
            f"Nodes {_listed(new)} must be there to elect: with empty directories, and without",
            "voters in their own configuration, or they could begin a cluster of their own.",
        ]
    return lines


def _listed(ids: Iterable[int]) -> str:
    return ", ".join([str(one) for one in ids])
