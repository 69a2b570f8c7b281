"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: one change of the quorum's voters at a time.

Only the leader of the quorum makes it; a broker passes the request on. The response is sent once
the change is committed, or is a timeout when that can't be known. Who is to be added is asked
first, where it says that it listens for controllers, which kraft.version it can do: as by Kafka,
nothing else keeps a node from being added that is registered as a broker only.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, endpoint_of
from kraftlog.metadata.features import KRAFT_VERSION
from kraftlog.node.handlers.forwarding import DEFAULT_TIMEOUT_MS, LeaderOnly
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

WHY = {
    ErrorCode.REQUEST_TIMED_OUT: (
        "The leader has not committed in its epoch yet, or the new voter has not caught up, or did "
        "not answer where its controller listener is said to be."
    ),
    ErrorCode.DUPLICATE_VOTER: "A voter with this id already exists.",
    ErrorCode.VOTER_NOT_FOUND: "No such voter exists.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The voters are being reassigned.",
    ErrorCode.UNSUPPORTED_VERSION: (
        "The voters can't be changed while kraft.version is 0: it is 1 as soon as the directory of "
        "every voter is recorded, which takes each of them to have been started once."
    ),
    ErrorCode.INVALID_REQUEST: (
        "A voter needs an id from 0 on, a directory id, an endpoint of the controller listener and "
        "support for the kraft.version in force."
    ),
}


def handle(node: Node, slot: PendingResponse, request: Any, now: Now) -> None:
    assert slot.api is not None
    if not node.quorum.is_leader and slot.connection.listener != CONTROLLER:
        patience = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)
        LeaderOnly(node, slot, request, now.monotonic_ms + max(patience, 0)).go(now)
        return
    error = _refusal(node, slot.api.key, request)
    if error:
        _answer(node, slot, error)
        return
    waits = getattr(request, "ack_when_committed", True)

    def on_done(error: int, _: Now) -> None:
        if waits:
            _answer(node, slot, error)

    def begun(error: int) -> None:
        if error or not waits:
            _answer(node, slot, error)

    if slot.api.key == ApiKey.ADD_RAFT_VOTER:
        _Addition(node, request, on_done, begun).go(now)
    else:
        begun(_change(node, slot.api.key, request, on_done, now))


def _refusal(node: Node, api_key: int, request: Any) -> int:
    """What is wrong with a request before anything is known of its voter, in Kafka's order."""
    core = node.quorum.core
    if core.cluster_id_differs(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if not node.quorum.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = getattr(request, "current_leader_epoch", core.election.epoch)
    if epoch != core.election.epoch:
        older = epoch < core.election.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if request.voter_id < 0 or request.voter_directory_id == NULL_UUID:
        return ErrorCode.INVALID_REQUEST
    if api_key != ApiKey.REMOVE_RAFT_VOTER:
        names = {each.name.upper() for each in request.listeners}
        if node.quorum.listener.upper() not in names:
            return ErrorCode.INVALID_REQUEST
    level = core.log.voter_set.kraft_version
    if api_key == ApiKey.UPDATE_RAFT_VOTER:
        can = request.k_raft_version_feature
        is_able = can.min_supported_version <= level <= can.max_supported_version
        return ErrorCode.NONE if is_able else ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if level else ErrorCode.UNSUPPORTED_VERSION


def _change(node: Node, api_key: int, request: Any, on_done: Any, now: Now) -> int:
    quorum, core = node.quorum, node.quorum.core
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if api_key == ApiKey.REMOVE_RAFT_VOTER:
        return quorum.change(core.remove_voter, key, on_done, now)
    versions = request.k_raft_version_feature
    updated = Voter(
        key,
        _endpoints(request),
        versions.min_supported_version,
        versions.max_supported_version,
    )
    return quorum.change(core.update_voter, updated, on_done, now)


def _endpoints(request: Any) -> tuple[Endpoint, ...]:
    return tuple([Endpoint(each.name, each.host, each.port) for each in request.listeners])


class _Addition:
    """A voter that is added once it has said what it can do.

    `begun` gets the code of a refusal, or NONE once the change is in the log; `on_done` what became
    of that. What has changed meanwhile is found out when the core is asked to make it.
    """

    def __init__(
        self, node: Node, request: Any, on_done: Callable[..., None], begun: Callable[[int], None]
    ) -> None:
        self.node = node
        self.key = ReplicaKey(request.voter_id, request.voter_directory_id)
        self.endpoints = _endpoints(request)
        self.result = on_done
        self.begun = begun

    def go(self, now: Now) -> None:
        node = self.node
        error = node.quorum.core.refusal_of_added(self.key, now)
        where = endpoint_of(self.endpoints, node.quorum.listener)
        if error or where is None:
            self.begun(error or ErrorCode.INVALID_REQUEST)
            return
        question = ApiVersionsRequest(
            client_software_name="kraftlog", client_software_version=VERSION
        )
        patience: int = node.config.settings.controller_quorum_request_timeout_ms
        at = where.host, where.port
        node.controller_channel.ask_at(
            self.key.id, at, ApiKey.API_VERSIONS, question, patience, self._answered
        )

    def _answered(self, response: Any, now: Now) -> None:
        if response is None or response.error_code:
            self.begun(ErrorCode.REQUEST_TIMED_OUT)
            return
        can = [it for it in response.supported_features if it.name == KRAFT_VERSION]
        low, high = (can[0].min_version, can[0].max_version) if can else (0, 0)
        quorum = self.node.quorum
        if not low <= quorum.core.log.voter_set.kraft_version <= high:
            self.begun(ErrorCode.INVALID_REQUEST)
            return
        added = Voter(self.key, self.endpoints, low, high)
        self.begun(quorum.change(quorum.core.add_voter, added, self.result, now))


def _answer(node: Node, slot: PendingResponse, error: int) -> None:
    assert slot.api is not None
    response: Any = slot.api.response()
    if slot.api.key != ApiKey.UPDATE_RAFT_VOTER:
        slot.respond(response(error_code=error, error_message=WHY.get(error)))
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
    slot.respond(response(error_code=error, current_leader=current))
