"""Recovery from a lost majority: new voters for the log of one surviving replica. The decisions.

The survivor cannot know what the others had committed beyond the end of its log, nor which of its
last records were committed. So a plan lists what may be lost, and requires the operator to confirm
it. Everything in the log is kept.
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

#: How far the repair raises the epoch, to skip those that the lost voters may have begun unseen. A
#: lost voter that comes back then has an older log and wins no election.
EPOCH_LEAP = 1000


class RepairRefusedError(KraftlogError):
    """The repair is refused; the message is for the operator."""


class SurvivingState(Value):
    """What a replica's directory contains."""

    me: ReplicaKey
    #: None if neither the log nor the directory has it.
    cluster_id: str | None
    election: ElectionState
    start: int
    end: int
    last_epoch: int
    #: Everything before this offset is known to be committed; 0 if unknown.
    committed: int
    voters: VoterSet
    #: How many records at the end of the log are discarded, from `end` on.
    dropped: int = 0

    @property
    def others(self) -> tuple[int, ...]:
        """The voters besides this replica."""
        return tuple([voter_id for voter_id in self.voters.ids if voter_id != self.me.id])

    @property
    def point(self) -> str:
        """The end of the log as `offset@epoch`, which confirms the loss of what may follow it."""
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
    """The state in a recovered directory; the log's voters, or else those of the election state."""
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
    """Plan a repair; refused unless the voters are valid and the loss is confirmed."""
    _check_voters(remains, voters)
    epoch = max(remains.election.epoch, remains.last_epoch) + EPOCH_LEAP
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
    # A vote for itself keeps others from being elected in this epoch; it does not lead it.
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
    """What a repair may lose, one item a line; empty if there never was another voter."""
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
    """The current state and the planned one, for the operator who has to decide."""
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
