"""Decides which changes and losses a quorum survives.

A voter is lost with its directory: the same id with another disk is another replica. A quorum
survives the loss of a minority; neither faults nor the simulated administrator cause a larger one.
"""

from __future__ import annotations

from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.voter_change import VoterChange


def lost_voters(
    world: SimulatedWorld, voters: VoterSet, lost: ReplicaKey | None = None
) -> list[Voter]:
    """The voters whose directory is lost, or would be if `lost` were lost, too."""
    return [
        voter
        for voter in voters.voters
        if not voters.holds(world.replicas[voter.key.id].key) or voter.key == lost
    ]


def has_majority(world: SimulatedWorld, voters: VoterSet, lost: ReplicaKey | None = None) -> bool:
    """Whether a majority of these voters keep their directories, even if `lost` is lost."""
    remaining = len(voters.voters) - len(lost_voters(world, voters, lost))
    return remaining >= voters.majority


def is_survivable(world: SimulatedWorld, voters: VoterSet, change: VoterChange) -> bool:
    """Whether a careful administrator would request this change of these voters."""
    what = change.what
    if change.kind == "remove_voter":
        return not voters.holds(what) or has_majority(world, voters.without_voter(what.id))
    if change.kind == "raise_kraft_version":
        return True  # the same voters
    if change.kind != "reassign":
        return has_majority(world, voters.with_voter(what))
    if what is None:
        return True
    lost = lost_voters(world, voters)
    # A leader must have had time to notice a dead voter, which it removes first.
    long_ago = world.time - 2 * world.setting.raft.fetch_timeout_ms
    return not any(
        voter.key.id in what or world.replicas[voter.key.id].wiped_at > long_ago for voter in lost
    )


def may_be_wiped(world: SimulatedWorld, victim: Replica) -> bool:
    """Whether all voter sets that may come into force keep a majority without its directory."""
    if world.administrator.is_reassigning:
        return False
    return all(
        voters.targets is None and has_majority(world, voters, victim.key)
        for voters in _possible_voter_sets(world)
    )


def _possible_voter_sets(world: SimulatedWorld) -> Iterator[VoterSet]:
    """The newest committed set, and all later ones in any log."""
    newest, committed = -1, world.voters
    for batch in world.oracle.committed_batches:
        if batch.voters is not None:
            newest, committed = batch.base_offset, batch.voters
    yield committed
    for replica in world.replicas.values():
        for batch in replica.disk.batches:
            if batch.voters is not None and batch.base_offset > newest:
                yield batch.voters


def may_forget(world: SimulatedWorld, victim: Replica, kept: int) -> bool:
    """Whether a replica may restart with only `kept` batches of its log.

    It keeps its directory id or, if no batch is left, gets another. A voter whose directory id
    changes loses its vote. A voter whose directory id stays forgets what it voted and acknowledged:
    the others must have elected a leader in a newer epoch, which has committed a record of that
    epoch, and must all know the current voters. A replica that was once the only voter must still
    be that. Until then a majority might depend on the lost data, which no protocol of this kind
    survives.
    """
    if kept == 0 and not may_be_wiped(world, victim):
        return False
    if kept == 0 and world.setting.dynamic:
        return True
    others = [replica.core for replica in world.replicas.values() if replica is not victim]
    leader = world.agreed_leader()
    if leader is None or leader.core is None or not isinstance(leader.core.role, Leader):
        return False
    log = leader.core.log
    newest = log.voters.committed(log.high_watermark)
    return (
        leader.core.election.epoch > victim.disk.election.epoch
        and log.high_watermark > leader.core.role.epoch_start
        and all(core is not None and core.log.voter_set == newest for core in others)
        and not _was_only_voter(world, victim, newest)
    )


def _was_only_voter(world: SimulatedWorld, victim: Replica, newest: VoterSet) -> bool:
    """Whether the replica was once the only voter: with its old log, it would elect itself."""
    return newest.ids != (victim.id,) and any(
        batch.voters is not None and batch.voters.ids == (victim.id,)
        for batch in world.oracle.committed_batches
    )
