"""Epochs, votes and leaders: the rules that hold in every role."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft import quorum
from kraftlog.raft.messages import (
    BeginEpochResult,
    ElectionState,
    EndEpochResult,
    Fetch,
    FetchResult,
    SnapshotFetch,
    Stop,
    VoteResult,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.interfaces import Core
    from kraftlog.raft.messages import BeginEpoch, EndEpoch, Vote


def role_at_start(core: Core) -> str:
    """The role of a replica after a restart, by its persisted election state (Q8)."""
    election = core.election
    if not core.may_campaign:
        if election.leader_id == core.me.id:
            core.election = election.replace(leader_id=-1)
        return quorum.OBSERVER
    if election.leader_id == core.me.id:
        # A restarted leader no longer knows what it sent to whom; a sole voter sent nothing (Q1).
        return quorum.RESIGNED if core.others else quorum.UNATTACHED
    return role_in_epoch(core)


def role_in_epoch(core: Core) -> str:
    """The role of a voter by its election state alone."""
    if core.election.leader_id >= 0:
        return quorum.FOLLOWER
    return quorum.UNATTACHED if core.election.voted is None else quorum.VOTED


def adopt(core: Core, epoch: int, leader_id: int) -> bool:
    """Adopt a newer epoch, or the leader of this one (Q2); return whether anything changed."""
    mine = core.election
    if epoch < mine.epoch or leader_id == core.me.id:
        # An older epoch changes nothing. Only this replica decides that it leads: if a message
        # names it as the leader of a newer epoch, it adopts that epoch without a leader.
        if epoch <= mine.epoch:
            return False
        leader_id = -1
    if epoch > mine.epoch:
        enter_election_state(core, ElectionState(epoch, leader_id))
        return True
    if leader_id >= 0 and mine.leader_id < 0 and core.role.name != quorum.RESIGNED:
        enter_election_state(core, mine.replace(leader_id=leader_id))
        return True
    return False


def note_removal(core: Core, peer: int, body: Any) -> None:
    """Note that the leader of this epoch reports the committed removal of this replica (R7)."""
    is_refusal = isinstance(body, FetchResult) and body.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if is_refusal and body.leader_id == peer:
        core.removed_at = max(core.removed_at, body.removed_at)


def enter_election_state(core: Core, election: ElectionState) -> None:
    """Enter an election state, in the role that it implies: never as prospective or candidate."""
    if not core.may_campaign:
        core.become(quorum.OBSERVER, election)
    elif election.leader_id >= 0:
        core.become(quorum.FOLLOWER, election)
    else:
        core.become(quorum.UNATTACHED if election.voted is None else quorum.VOTED, election)


def on_wrong_cluster(core: Core, peer: int, request: Any, body: Any) -> None:
    """Handle INCONSISTENT_CLUSTER_ID, which may be fatal as the leader's response to a fetch (Q31).

    An observer that has no other controller to ask stops instead of retrying for ever.
    """
    leads = peer in {core.election.leader_id, body.leader_id}
    if isinstance(request, (Fetch, SnapshotFetch)) and leads:
        core.report_foreign_peer(peer)
    elif (
        not core.may_campaign
        and not core.is_cluster_id_confirmed
        and knows_only_foreign_controllers(core)
    ):
        core.effect(
            Stop(
                "all controllers that this node knows belong to another cluster than its own, "
                f"{core.cluster_id}: check controller.quorum.bootstrap.servers or "
                "controller.quorum.voters, and cluster.id in meta.properties"
            )
        )
    core.role.on_response(core, peer, request, body)


def knows_only_foreign_controllers(core: Core) -> bool:
    """Whether the last response of every known controller came from another cluster."""
    return all(core.peer(peer).is_foreign for peer in known_controllers(core))


def known_controllers(core: Core) -> list[int]:
    """The controllers that may know the leader: the other voters and the bootstrap controllers.

    A log that names no other voter may be old. Then the voters that were configured before its
    first voters record may know the leader, or else the nodes that discovery has found.
    """
    known = core.others or [i for i in core.log.voters.base.ids if i != core.me.id]
    return [*(known or core.discovered), *core.config.bootstrap_ids]


# Requests ----------------------------------------------------------------------------------------


def on_vote(core: Core, pending: object, vote: Vote) -> None:
    """Check a vote request, decide on it and respond (R8, Q12, P2, in this order)."""
    error = _vote_error(core, vote)
    if error or _is_disruptive(core, vote):
        core.reply(pending, VoteResult(error=error, granted=False, **core.leader_and_epoch))
        return
    if not core.may_raise_epoch(vote.epoch, vote.candidate.id):
        refused = ErrorCode.INVALID_REQUEST
        core.reply(pending, VoteResult(error=refused, granted=False, **core.leader_and_epoch))
        return
    adopt(core, vote.epoch, -1)
    granted = _grants(core, vote)
    if granted and not vote.pre_vote and core.election.voted is None:
        core.vote_for(vote.candidate)
    core.reply(pending, VoteResult(error=ErrorCode.NONE, granted=granted, **core.leader_and_epoch))


def _vote_error(core: Core, vote: Vote) -> int:
    if core.cluster_id_differs(vote.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if vote.epoch < 0 or not 0 <= vote.last_epoch <= vote.epoch or vote.end_offset < 0:
        return ErrorCode.INVALID_REQUEST
    if vote.candidate.id < 0:
        return ErrorCode.INVALID_REQUEST
    if vote.receiver.id >= 0 and not _is_me(core, vote.receiver):
        return ErrorCode.INVALID_VOTER_KEY
    if vote.epoch < core.election.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.NONE


def _is_me(core: Core, key: Any) -> bool:
    unknown = bytes(16)
    return key.id == core.me.id and key.directory_id in {unknown, core.me.directory_id}


def _is_disruptive(core: Core, vote: Vote) -> bool:
    """R8: whether the candidate is no voter in this log, and would disrupt a live leader."""
    return not core.log.voter_set.holds(vote.candidate) and core.role.has_live_leader(core)


def _grants(core: Core, vote: Vote) -> bool:
    if not core.log.is_covered_by(vote.last_epoch, vote.end_offset):
        return False
    if vote.pre_vote:
        # P2: regardless of this replica's vote in the epoch, unless a leader is alive.
        return not core.role.has_live_leader(core)
    if core.election.leader_id >= 0:
        return False
    return core.election.voted in {None, vote.candidate}


def on_begin(core: Core, pending: object, begin: BeginEpoch) -> None:
    """A leader announces itself (Q16)."""
    error = _leader_error(core, begin.cluster_id, begin.leader_id, begin.epoch)
    if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
        core.report_foreign_peer(begin.leader_id, begin.cluster_id)
    if not error and begin.leader_id < 0:
        error = ErrorCode.INVALID_REQUEST
    if not error and begin.receiver.id >= 0 and not _is_me(core, begin.receiver):
        error = ErrorCode.INVALID_VOTER_KEY
    if not error and not core.may_raise_epoch(begin.epoch, begin.leader_id):
        error = ErrorCode.INVALID_REQUEST
    if not error:
        changed = adopt(core, begin.epoch, begin.leader_id)
        if not changed and core.role.name == quorum.PROSPECTIVE:
            enter_election_state(core, core.election)  # the leader is alive after all
    core.reply(pending, BeginEpochResult(error=error, **core.leader_and_epoch))


def on_end(core: Core, pending: object, end: EndEpoch) -> None:
    """A leader resigns and names its successors (Q17)."""
    error = _leader_error(core, end.cluster_id, end.leader_id, end.epoch)
    if not error and not core.may_raise_epoch(end.epoch, end.leader_id):
        error = ErrorCode.INVALID_REQUEST
    if not error:
        adopt(core, end.epoch, end.leader_id)
    core.reply(pending, EndEpochResult(error=error, **core.leader_and_epoch))
    if error or not core.is_voter:
        return
    position = [key.id for key in end.successors].index(core.me.id) if _names_me(core, end) else -1
    if position >= 0:
        core.role.on_succession(core, position)


def _names_me(core: Core, end: EndEpoch) -> bool:
    return any(_is_me(core, key) for key in end.successors)


def _leader_error(core: Core, cluster_id: str | None, leader_id: int, epoch: int) -> int:
    if core.cluster_id_differs(cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    mine = core.election
    if leader_id < -1:
        return ErrorCode.INVALID_REQUEST
    if epoch < mine.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    leader_of_epoch = core.me.id if core.role.name == quorum.RESIGNED else mine.leader_id
    if epoch == mine.epoch and leader_of_epoch >= 0 and leader_id not in {leader_of_epoch, -1}:
        return ErrorCode.INVALID_REQUEST
    if leader_id == core.me.id:
        return ErrorCode.INVALID_REQUEST  # no other replica decides that this one leads
    return ErrorCode.NONE
