"""AlterPartitionReassignments: the quorum moves its own partition, the controller all others.

The replicas of the metadata partition are the quorum's voters. The leader notes the new ones as
target voters, responds once that is committed, and moves to them one voter at a time (R2, R3).
"""

from __future__ import annotations

from kraftlog.errors import RAISE_KRAFT_VERSION, ErrorCode
from kraftlog.node.handlers import forwarding
from kraftlog.node.handlers.forwarding import LeaderOnly
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

MESSAGES = {
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The voters must be different ids, at least one.",
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "The number of voters would change, which the request does not allow."
    ),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No reassignment of the voters is in progress.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The metadata log has one partition, 0.",
    ErrorCode.INVALID_REQUEST: "The metadata partition must be alone in the request.",
    ErrorCode.UNSUPPORTED_VERSION: (
        f"The voters can't be changed while kraft.version is 0: {RAISE_KRAFT_VERSION}."
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This node is not the leader of the metadata quorum.",
}


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: AlterPartitionReassignmentsRequest,
    now: Now,
) -> None:
    if all(topic.name != METADATA_TOPIC for topic in request.topics):
        forwarding.handle(node, pending, request, now)
    elif node.quorum.is_leader or pending.connection.serves == CONTROLLER:
        # A controller that does not lead refuses; a broker forwards to the leader.
        _change_voters(node, pending, request, now)
    else:
        LeaderOnly(node, pending, request, now.monotonic_ms + max(request.timeout_ms, 0)).start(now)


def _change_voters(
    node: ServingNode,
    pending: PendingResponse,
    request: AlterPartitionReassignmentsRequest,
    now: Now,
) -> None:
    def on_done(error: int, _: Now) -> None:
        pending.respond(_response(request, error))

    error = _error_code(node, request)
    if not error:
        [[partition]] = [topic.partitions for topic in request.topics]
        targets = None if partition.replicas is None else tuple(partition.replicas)
        error = node.quorum.change_voters(node.quorum.core.reassign, targets, on_done, now)
    if error:
        pending.respond(_response(request, error))


def _error_code(node: ServingNode, request: AlterPartitionReassignmentsRequest) -> int:
    if not node.quorum.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if len(request.topics) > 1 or len(request.topics[0].partitions) != 1:
        return ErrorCode.INVALID_REQUEST
    if request.topics[0].partitions[0].partition_index != 0:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    voters = node.quorum.core.log.voter_set
    if not voters.kraft_version:
        return ErrorCode.UNSUPPORTED_VERSION
    targets = request.topics[0].partitions[0].replicas
    if targets is not None and not request.allow_replication_factor_change:
        current = voters.ids if voters.targets is None else voters.targets
        if len(targets) != len(current):
            return ErrorCode.INVALID_REPLICATION_FACTOR
    return ErrorCode.NONE


def _response(
    request: AlterPartitionReassignmentsRequest, error: int
) -> AlterPartitionReassignmentsResponse:
    """The same error for each partition of the request."""
    return AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=part.partition_index,
                        error_code=error,
                        error_message=MESSAGES.get(error),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
