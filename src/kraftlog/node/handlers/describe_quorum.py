"""DescribeQuorum 0-2: leader, voters and observers of the metadata quorum (D1 to D7).

Only the leader knows them; a broker forwards the request.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.forwarding import DEFAULT_TIMEOUT_MS, LeaderOnly
from kraftlog.raft.describe import describe
from kraftlog.types import METADATA_TOPIC, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages import describe_quorum as api

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.raft.describe import ReplicaDescription
    from kraftlog.types import Now

#: The first version with the endpoints of voters.
NODES_SINCE = 2


def handle(
    node: ServingNode, pending: PendingResponse, request: api.DescribeQuorumRequest, now: Now
) -> None:
    if node.quorum.is_leader or pending.connection.serves == CONTROLLER:
        pending.respond(response_of(node, request, pending.version, now))
        return
    LeaderOnly(node, pending, request, now.monotonic_ms + DEFAULT_TIMEOUT_MS).start(now)


def response_of(
    node: ServingNode, request: api.DescribeQuorumRequest, version: int, now: Now
) -> api.DescribeQuorumResponse:
    topics = [
        api.TopicResult(
            topic_name=topic.topic_name,
            partitions=[_partition(node, topic.topic_name, part, now) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    voters = node.quorum.core.log.voter_set.voters if version >= NODES_SINCE else ()
    nodes = [
        api.Node(
            node_id=voter.key.id,
            listeners=[
                api.Listener(name=each.name, host=each.host, port=each.port)
                for each in node.endpoints_of(voter)
            ],
        )
        for voter in voters
    ]
    return api.DescribeQuorumResponse(
        error_code=ErrorCode.NONE, error_message="", topics=topics, nodes=nodes or ()
    )


def _partition(
    node: ServingNode, topic: str, part: api.PartitionData, now: Now
) -> api.PartitionResult:
    if topic != METADATA_TOPIC or part.partition_index != 0:
        return _refused(part.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    description = describe(node.quorum.core, now)
    if description is None:
        refused = _refused(part.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refused.leader_id = node.quorum.leader_id
        refused.leader_epoch = node.quorum.epoch
        return refused
    return api.PartitionResult(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=description.leader_id,
        leader_epoch=description.epoch,
        high_watermark=description.high_watermark,
        current_voters=[_replica(replica) for replica in description.voters],
        observers=[_replica(replica) for replica in description.observers],
        target_voters=description.targets,
        awaited_targets=description.awaited_targets,
        committed_voters=description.committed_voters,
        uncommitted_voters_offset=description.uncommitted_voters_offset,
    )


def _refused(index: int, code: int) -> api.PartitionResult:
    return api.PartitionResult(
        partition_index=index,
        error_code=code,
        leader_id=-1,
        leader_epoch=0,
        high_watermark=-1,
        current_voters=(),
        observers=(),
    )


def _replica(replica: ReplicaDescription) -> api.ReplicaState:
    return api.ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id or NULL_UUID,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.fetched_ms,
        last_caught_up_timestamp=replica.caught_up_ms,
        is_target=replica.is_target,
        lag_reason=replica.lag_reason,
        last_error=replica.last_error,
    )
