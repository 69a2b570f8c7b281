"""Plans the repair of a quorum without a majority: new voters for the log of one survivor.

The survivor cannot know what the others had committed beyond the end of its log, nor which of its
last records were committed. So a repair lists what may be lost, and requires the operator to
confirm it. The log is kept whole, unless the operator drops its end (`--drop-from`).
"""

from __future__ import annotations

from kraftlog.errors import KraftlogError
from kraftlog.logstate.voters import VoterSet
from kraftlog.raft.messages import MAX_EPOCH, Batch, ElectionState, LeaderChange
from kraftlog.types import NULL_UUID
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
        """The end of the log as `offset@epoch`; the operator repeats it to accept the losses."""
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
    stored_voters: VoterSet,
) -> SurvivingState:
    """The state in a recovered directory; a log without voters has those of the election state."""
    return SurvivingState(
        me=me,
        cluster_id=cluster_id,
        election=election,
        start=log.start,
        end=log.end,
        last_epoch=log.last_epoch,
        committed=max(log.high_watermark, log.start),
        voters=log.voter_set if log.voter_set.voters else stored_voters,
    )


def plan(survivor: SurvivingState, voters: VoterSet, accepted: str | None, size_bytes: int) -> Plan:
    """Plan a repair; refused unless the voters are valid and the loss is confirmed."""
    _check_voters(survivor, voters)
    epoch = max(survivor.election.epoch, survivor.last_epoch) + EPOCH_LEAP
    if epoch > MAX_EPOCH:
        raise RepairRefusedError(f"epoch {epoch} is above the maximum, {MAX_EPOCH}")
    if possible_losses(survivor) and accepted != survivor.point:
        given = "" if accepted is None else f", not {accepted}"
        raise RepairRefusedError(
            f"records may be lost: to accept that, --accept-loss must be {survivor.point}{given}"
        )
    own_entries = [voter for voter in voters.voters if voter.key.id == survivor.me.id]
    new_voters = voters.with_voter(own_entries[0].replace(key=survivor.me))
    keys = [voter.key for voter in new_voters.voters]
    new_voters = new_voters.replace(
        cluster_id=survivor.voters.cluster_id or survivor.cluster_id,
        removed=tuple([key for key in survivor.voters.removed if key not in keys]),
    )
    change = LeaderChange(survivor.me.id, new_voters.ids, (survivor.me.id,), new_voters)
    raises_level = new_voters.kraft_version > survivor.voters.kraft_version
    # Records: the leader change, kraft.version if it rises, and the voters.
    last = survivor.end + 1 + raises_level
    batch = Batch(survivor.end, last, epoch, size_bytes, new_voters, change)
    # The survivor does not lead this epoch. Its vote for itself keeps others from being elected.
    return Plan(ElectionState(epoch, -1, survivor.me), batch, new_voters)


def _check_voters(survivor: SurvivingState, voters: VoterSet) -> None:
    if len(set(voters.ids)) < len(voters.ids):
        raise RepairRefusedError(f"voters {_listed(voters.ids)}: duplicate id")
    if not voters.holds(survivor.me):
        raise RepairRefusedError(
            f"the new voters ({_listed(voters.ids) or 'none'}) must include node {survivor.me.id} "
            "with this directory: otherwise its log would be lost"
        )
    if not survivor.end and not survivor.start:
        raise RepairRefusedError("the log is empty: there is nothing to repair")
    _check_level(survivor, voters)


def _check_level(survivor: SurvivingState, voters: VoterSet) -> None:
    """Refuse voters without a directory id if they would lower kraft.version.

    The ids in the log do not help: those directories are emptied before their nodes start again.
    """
    others = [voter.key for voter in voters.voters if voter.key.id != survivor.me.id]
    unknown = [key.id for key in others if key.directory_id == NULL_UUID]
    if survivor.voters.kraft_version and unknown:
        raise RepairRefusedError(
            f"the new voters {_listed(unknown)} need directory ids, as kraft.version is 1 in this "
            f"log: name node {survivor.me.id} alone and add the others once it runs, or give each "
            "as ID@HOST:PORT:DIRECTORY, with the directory.id of meta.properties in its newly "
            "formatted directory"
        )


def possible_losses(survivor: SurvivingState) -> list[str]:
    """What a repair may lose, one item a line; empty for a sole voter that drops nothing."""
    discarded = (
        f"{survivor.dropped} records from offset {survivor.end} on, with their changes of topics, "
        "partitions and configurations. Partitions of topics that they created become strays"
    )
    dropped = [discarded] if survivor.dropped else []
    if not survivor.others and survivor.me.id in survivor.voters.ids:
        return dropped
    others = f"voters {_listed(survivor.others)}" if survivor.others else "unknown voters"
    end = f"offset {survivor.end} (epoch {survivor.last_epoch})"
    lost = (
        f"records that {others} committed after the end of this log, {end}; it is unknown how many"
    )
    return [*dropped, lost]


def describe_repair(survivor: SurvivingState, voters: VoterSet) -> list[str]:
    """The current state and the planned one, for the operator who has to decide."""
    _check_voters(survivor, voters)
    current = survivor.voters
    log = f"a log from offset {survivor.start} to {survivor.end}, last epoch {survivor.last_epoch}"
    node = f"node {survivor.me.id} of cluster {survivor.cluster_id or 'unknown'}"
    lines = [
        f"{node}, epoch {survivor.election.epoch}: {log}",
        f"current voters: {_listed(current.ids) or 'unknown'}; new voters: {_listed(voters.ids)}",
    ]
    lost = possible_losses(survivor)
    lines += ["May be lost permanently:", *[f"  - {what}" for what in lost]] if lost else []
    tail = survivor.end - survivor.committed
    if lost and tail:
        lines += [
            "Are kept and become committed, even if they were not committed before:",
            f"  - {tail} records from offset {survivor.committed} on",
        ]
    if lost:
        lines += [
            f"If {current.majority} of the current voters can be started, start them instead.",
            "Never restart the other voters with their old directories: empty them first.",
        ]
    new = [voter_id for voter_id in voters.ids if voter_id != survivor.me.id]
    if new:
        lines += [
            f"No leader can be elected before enough of nodes {_listed(new)} run. Start them with",
            "empty directories and without configured voters, or they may form another cluster.",
        ]
    return lines


def _listed(ids: Iterable[int]) -> str:
    return ", ".join([str(voter_id) for voter_id in ids])
