"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter: change the quorum's voters, one at a time.

Only the quorum leader changes them; a broker forwards the request. The response is sent once the
change is committed (appended, if AddRaftVoter sets AckWhenCommitted to false), or is a timeout if
the outcome is unknown. Before the leader adds a voter, it sends ApiVersions to the controller
endpoint of that voter, to learn the voter's kraft.version range. As in Kafka, nothing else prevents
adding a node that is only a broker.
"""

from __future__ import annotations

from kraftlog.errors import RAISE_KRAFT_VERSION, ErrorCode
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

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The error_message of a response, by its error code.
MESSAGES = {
    ErrorCode.REQUEST_TIMED_OUT: (
        "The leader has not yet committed in its epoch, or the new voter has not caught up or did "
        "not respond at its controller endpoint."
    ),
    ErrorCode.DUPLICATE_VOTER: "A voter with this id already exists.",
    ErrorCode.VOTER_NOT_FOUND: "No such voter exists.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The voters are being reassigned.",
    ErrorCode.UNSUPPORTED_VERSION: (
        f"The voters can't be changed while kraft.version is 0: {RAISE_KRAFT_VERSION}."
    ),
    ErrorCode.INVALID_REQUEST: (
        "A voter needs an id from 0 on, a directory id, an endpoint of the controller listener and "
        "support for the kraft.version in force."
    ),
}
INVALID_REMOVAL = (
    "A voter to remove needs its id and directory id, and must not be the only voter: add another "
    "one first."
)


def handle(node: ServingNode, pending: PendingResponse, request: Any, now: Now) -> None:
    assert pending.api is not None
    if not node.quorum.is_leader and pending.connection.serves != CONTROLLER:
        timeout_ms = getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS)
        LeaderOnly(node, pending, request, now.monotonic_ms + max(timeout_ms, 0)).start(now)
        return
    error = _error_code(node, pending.api.key, request)
    if error:
        _respond(node, pending, error)
        return
    acks_when_committed = getattr(request, "ack_when_committed", True)

    def on_done(error: int, _: Now) -> None:
        if acks_when_committed:
            _respond(node, pending, error)

    def on_appended(error: int) -> None:
        if error or not acks_when_committed:
            _respond(node, pending, error)

    if pending.api.key == ApiKey.ADD_RAFT_VOTER:
        _AddVoter(node, request, on_done, on_appended).start(now)
    else:
        on_appended(_change(node, pending.api.key, request, on_done, now))


def _error_code(node: ServingNode, api_key: int, request: Any) -> int:
    """The error code of the checks that need no response from the new voter, in Kafka's order."""
    core = node.quorum.core
    if core.cluster_id_differs(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if not node.quorum.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = getattr(request, "current_leader_epoch", core.election.epoch)
    if epoch != core.election.epoch:
        is_older = epoch < core.election.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if request.voter_id < 0 or request.voter_directory_id == NULL_UUID:
        return ErrorCode.INVALID_REQUEST
    if api_key != ApiKey.REMOVE_RAFT_VOTER:
        names = {each.name.upper() for each in request.listeners}
        if node.quorum.listener.upper() not in names:
            return ErrorCode.INVALID_REQUEST
    level = core.log.voter_set.kraft_version
    if api_key == ApiKey.UPDATE_RAFT_VOTER:
        supported = request.k_raft_version_feature
        supports_level = supported.min_supported_version <= level <= supported.max_supported_version
        return ErrorCode.NONE if supports_level else ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if level else ErrorCode.UNSUPPORTED_VERSION


def _change(node: ServingNode, api_key: int, request: Any, on_done: Any, now: Now) -> int:
    """Remove or update a voter; returns an error code, NONE once the change is in the log."""
    quorum, core = node.quorum, node.quorum.core
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if api_key == ApiKey.REMOVE_RAFT_VOTER:
        return quorum.change_voters(core.remove_voter, key, on_done, now)
    versions = request.k_raft_version_feature
    updated = Voter(
        key,
        _endpoints(request),
        versions.min_supported_version,
        versions.max_supported_version,
    )
    return quorum.change_voters(core.update_voter, updated, on_done, now)


def _endpoints(request: Any) -> tuple[Endpoint, ...]:
    return tuple([Endpoint(each.name, each.host, each.port) for each in request.listeners])


class _AddVoter:
    """Adds a voter after it has reported its kraft.version range.

    `on_appended` gets an error code, or NONE once the change is in the log; `on_done` gets the code
    of the outcome. The core checks everything again when it appends the change.
    """

    def __init__(
        self,
        node: ServingNode,
        request: Any,
        on_done: Callable[..., None],
        on_appended: Callable[[int], None],
    ) -> None:
        self.node = node
        self.key = ReplicaKey(request.voter_id, request.voter_directory_id)
        self.endpoints = _endpoints(request)
        self.is_auto_join = request.is_auto_join
        self.on_done = on_done
        self.on_appended = on_appended

    def start(self, now: Now) -> None:
        node = self.node
        error = node.quorum.core.add_voter_error(self.key, now)
        endpoint = endpoint_of(self.endpoints, node.quorum.listener)
        if error or endpoint is None:
            self.on_appended(error or ErrorCode.INVALID_REQUEST)
            return
        probe = ApiVersionsRequest(client_software_name="kraftlog", client_software_version=VERSION)
        timeout_ms: int = node.config.settings.controller_quorum_request_timeout_ms
        address = endpoint.host, endpoint.port
        node.controller_channel.send_to(
            self.key.id, address, ApiKey.API_VERSIONS, probe, timeout_ms, self._on_api_versions
        )

    def _on_api_versions(self, response: Any, now: Now) -> None:
        if response is None or response.error_code:
            self.on_appended(ErrorCode.REQUEST_TIMED_OUT)
            return
        ranges = [it for it in response.supported_features if it.name == KRAFT_VERSION]
        low, high = (ranges[0].min_version, ranges[0].max_version) if ranges else (0, 0)
        quorum = self.node.quorum
        if not low <= quorum.core.log.voter_set.kraft_version <= high:
            self.on_appended(ErrorCode.INVALID_REQUEST)
            return
        if self.is_auto_join and quorum.core.log.voters.has_removed(self.key):
            # The node was removed as a voter after it sent this request (R12).
            self.on_appended(ErrorCode.INVALID_REQUEST)
            return
        added = Voter(self.key, self.endpoints, low, high)
        self.on_appended(quorum.change_voters(quorum.core.add_voter, added, self.on_done, now))


def _respond(node: ServingNode, pending: PendingResponse, error: int) -> None:
    assert pending.api is not None
    response: Any = pending.api.response()
    if pending.api.key != ApiKey.UPDATE_RAFT_VOTER:
        is_removal = pending.api.key == ApiKey.REMOVE_RAFT_VOTER
        is_invalid = is_removal and error == ErrorCode.INVALID_REQUEST
        message = INVALID_REMOVAL if is_invalid else MESSAGES.get(error)
        pending.respond(response(error_code=error, error_message=message))
        return
    from kraftlog.wire.messages.update_raft_voter import CurrentLeader

    leader = node.quorum.core.log.voter_set.voter(node.quorum.leader_id)
    endpoint = endpoint_of(leader.endpoints, node.quorum.listener) if leader is not None else None
    current = CurrentLeader(
        leader_id=node.quorum.leader_id,
        leader_epoch=node.quorum.epoch,
        host="" if endpoint is None else endpoint.host,
        port=-1 if endpoint is None else endpoint.port,
    )
    pending.respond(response(error_code=error, current_leader=current))
