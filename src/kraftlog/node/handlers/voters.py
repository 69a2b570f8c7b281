"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: one change of the quorum's voters at a time.

Only the leader of the quorum does it; a broker that is asked passes the request on. The answer
comes once the change is committed, or is a timeout when nobody can say.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, endpoint_of
from kraftlog.node.handlers.cluster import PATIENCE_MS, ForTheLeader
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER, ApiKey

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now

WHY = {
    ErrorCode.REQUEST_TIMED_OUT: (
        "The leader has not committed in its epoch yet, or the new voter has not caught up."
    ),
    ErrorCode.DUPLICATE_VOTER: "A voter with this id is there already.",
    ErrorCode.VOTER_NOT_FOUND: "There is no such voter.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The voters are being reassigned.",
}


def handle(node: Node, slot: Slot, request: Any, now: Now) -> None:
    assert slot.api is not None
    if not node.quorum.is_leader and slot.connection.listener != CONTROLLER:
        patience = getattr(request, "timeout_ms", PATIENCE_MS)
        ForTheLeader(node, slot, request, now.monotonic_ms + max(patience, 0)).go(now)
        return
    theirs = request.cluster_id
    if theirs is not None and theirs != node.config.cluster_id:
        _answer(node, slot, ErrorCode.INCONSISTENT_CLUSTER_ID)
        return
    if not node.quorum.is_leader:
        _answer(node, slot, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return
    waits = getattr(request, "ack_when_committed", True)

    def told(error: int, _: Now) -> None:
        if waits:
            _answer(node, slot, error)

    error = _change(node, slot.api.key, request, told, now)
    if error or not waits:
        _answer(node, slot, error)


def _change(node: Node, api_key: int, request: Any, told: Any, now: Now) -> int:
    quorum, core = node.quorum, node.quorum.core
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if api_key == ApiKey.REMOVE_RAFT_VOTER:
        return quorum.change(core.remove_voter, key, told, now)
    endpoints = tuple([Endpoint(each.name, each.host, each.port) for each in request.listeners])
    if api_key == ApiKey.ADD_RAFT_VOTER:
        return quorum.change(core.add_voter, Voter(key, endpoints), told, now)
    if request.current_leader_epoch < core.election.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.current_leader_epoch > core.election.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    versions = request.k_raft_version_feature
    updated = Voter(key, endpoints, versions.min_supported_version, versions.max_supported_version)
    return quorum.change(core.update_voter, updated, told, now)


def _answer(node: Node, slot: Slot, error: int) -> None:
    assert slot.api is not None
    response: Any = slot.api.response()
    if slot.api.key != ApiKey.UPDATE_RAFT_VOTER:
        slot.answer(response(error_code=error, error_message=WHY.get(error)))
        return
    from kraftlog.wire.messages.update_raft_voter import CurrentLeader

    leader = node.quorum.core.log.voter_set.voter(node.quorum.leader_id)
    where = endpoint_of(leader.endpoints, node.quorum.listener) if leader is not None else None
    current = CurrentLeader(
        leader_id=node.quorum.leader_id,
        leader_epoch=node.quorum.epoch,
        host="" if where is None else where.host,
        port=-1 if where is None else where.port,
    )
    slot.answer(response(error_code=error, current_leader=current))
