"""Requests between replicas of the metadata quorum: raft messages to Kafka's requests and back.

Kafka's requests have topics and partitions; the quorum has one of each.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import begin_quorum_epoch as begins
from kraftlog.wire.messages import end_quorum_epoch as ends
from kraftlog.wire.messages import fetch as fetches
from kraftlog.wire.messages import fetch_snapshot as snapshots
from kraftlog.wire.messages import read_offset as reads
from kraftlog.wire.messages import vote as votes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.wire.schema import Message

#: The versions that this node sends.
VERSIONS = {
    ApiKey.VOTE: 2,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH: 18,
    ApiKey.FETCH_SNAPSHOT: 1,
    ApiKey.READ_OFFSET: 0,
}


def request_to_wire(
    body: Any, advertised_endpoints: Sequence[begins.LeaderEndpoint] = ()
) -> tuple[int, Message]:
    """The API key and request for a raft message; a leader's BeginQuorumEpoch has its endpoints."""
    api_key, convert = _TO_WIRE[type(body)]
    request = convert(body)
    if isinstance(request, begins.BeginQuorumEpochRequest):
        request.leader_endpoints = advertised_endpoints
    return api_key, request


def request_from_wire(api_key: int, request: Any) -> Any:
    """The raft message of a request."""
    return _FROM_WIRE[api_key](request)


def only_partition(topics: Sequence[Any]) -> Any:
    """The only partition of the only topic."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise ProtocolError("a quorum request must have exactly one partition")
    return topics[0].partitions[0]


# To Kafka's requests -----------------------------------------------------------------------------


def _vote(body: raft.Vote) -> Message:
    partition = votes.PartitionData(
        partition_index=0,
        replica_epoch=body.epoch,
        replica_id=body.candidate.id,
        replica_directory_id=body.candidate.directory_id,
        voter_directory_id=body.receiver.directory_id,
        last_offset_epoch=body.last_epoch,
        last_offset=body.end_offset,
        pre_vote=body.pre_vote,
    )
    return votes.VoteRequest(
        cluster_id=body.cluster_id,
        voter_id=body.receiver.id,
        topics=[votes.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _begin(body: raft.BeginEpoch) -> Message:
    partition = begins.PartitionData(
        partition_index=0,
        voter_directory_id=body.receiver.directory_id,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
    )
    return begins.BeginQuorumEpochRequest(
        cluster_id=body.cluster_id,
        voter_id=body.receiver.id,
        topics=[begins.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _end(body: raft.EndEpoch) -> Message:
    candidates = [
        ends.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
        for key in body.successors
    ]
    partition = ends.PartitionData(
        partition_index=0,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
        preferred_candidates=candidates,
    )
    return ends.EndQuorumEpochRequest(
        cluster_id=body.cluster_id,
        topics=[ends.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def _fetch(body: raft.Fetch) -> Message:
    partition = fetches.FetchPartition(
        partition=0,
        current_leader_epoch=body.epoch,
        fetch_offset=body.offset,
        last_fetched_epoch=body.last_epoch,
        partition_max_bytes=body.max_bytes,
        replica_directory_id=body.replica.directory_id,
        high_watermark=body.high_watermark,
    )
    return fetches.FetchRequest(
        cluster_id=body.cluster_id,
        replica_state=fetches.ReplicaState(replica_id=body.replica.id),
        max_wait_ms=body.max_wait_ms,
        min_bytes=0,
        max_bytes=body.max_bytes,
        topics=[fetches.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _snapshot_fetch(body: raft.SnapshotFetch) -> Message:
    partition = snapshots.PartitionSnapshot(
        partition=0,
        current_leader_epoch=body.epoch,
        snapshot_id=snapshots.SnapshotId(end_offset=body.id.offset, epoch=body.id.epoch),
        position=body.position,
        replica_directory_id=body.replica.directory_id,
    )
    return snapshots.FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica_id=body.replica.id,
        max_bytes=body.max_bytes,
        topics=[snapshots.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def _read(body: raft.ReadOffset) -> Message:
    partition = reads.ReadOffsetPartition(partition_index=0)
    request = reads.ReadOffsetRequest(
        cluster_id=body.cluster_id,
        read_timestamp_ms=body.read_at_ms,
        topics=[reads.ReadOffsetTopic(topic_name=METADATA_TOPIC, partitions=[partition])],
        replica_epoch=body.replica_epoch,
    )
    if body.replica is not None:
        request.replica_id = body.replica.id
        request.replica_directory_id = body.replica.directory_id
    return request


_TO_WIRE: dict[type, tuple[int, Callable[[Any], Message]]] = {
    raft.Vote: (ApiKey.VOTE, _vote),
    raft.BeginEpoch: (ApiKey.BEGIN_QUORUM_EPOCH, _begin),
    raft.EndEpoch: (ApiKey.END_QUORUM_EPOCH, _end),
    raft.Fetch: (ApiKey.FETCH, _fetch),
    raft.SnapshotFetch: (ApiKey.FETCH_SNAPSHOT, _snapshot_fetch),
    raft.ReadOffset: (ApiKey.READ_OFFSET, _read),
}

# From Kafka's requests ---------------------------------------------------------------------------


def _vote_message(request: votes.VoteRequest) -> raft.Vote:
    partition = only_partition(request.topics)
    return raft.Vote(
        cluster_id=request.cluster_id,
        receiver=ReplicaKey(request.voter_id, partition.voter_directory_id),
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def _begin_message(request: begins.BeginQuorumEpochRequest) -> raft.BeginEpoch:
    partition = only_partition(request.topics)
    return raft.BeginEpoch(
        cluster_id=request.cluster_id,
        receiver=ReplicaKey(request.voter_id, partition.voter_directory_id),
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
    )


def _end_message(request: ends.EndQuorumEpochRequest) -> raft.EndEpoch:
    partition = only_partition(request.topics)
    successors = [
        ReplicaKey(candidate.candidate_id, candidate.candidate_directory_id)
        for candidate in partition.preferred_candidates
    ]
    successors = successors or [
        ReplicaKey(replica_id) for replica_id in partition.preferred_successors
    ]
    return raft.EndEpoch(
        cluster_id=request.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        successors=tuple(successors),
    )


def _fetch_message(request: fetches.FetchRequest) -> raft.Fetch:
    partition = only_partition(request.topics)
    by_state = request.replica_state.replica_id
    replica_id = by_state if by_state >= 0 else request.replica_id
    return raft.Fetch(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(replica_id, partition.replica_directory_id),
        epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=request.max_wait_ms,
        max_bytes=min(request.max_bytes, partition.partition_max_bytes),
    )


def _snapshot_fetch_message(request: snapshots.FetchSnapshotRequest) -> raft.SnapshotFetch:
    partition = only_partition(request.topics)
    snapshot_id = partition.snapshot_id
    return raft.SnapshotFetch(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
        epoch=partition.current_leader_epoch,
        id=OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch),
        position=partition.position,
        max_bytes=request.max_bytes,
    )


def _read_message(request: reads.ReadOffsetRequest) -> raft.ReadOffset:
    only_partition(request.topics)
    replica = None
    if request.replica_id >= 0:
        replica = ReplicaKey(request.replica_id, request.replica_directory_id)
    return raft.ReadOffset(
        request.cluster_id, replica, request.replica_epoch, request.read_timestamp_ms
    )


_FROM_WIRE: dict[int, Callable[[Any], Any]] = {
    ApiKey.VOTE: _vote_message,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_message,
    ApiKey.END_QUORUM_EPOCH: _end_message,
    ApiKey.FETCH: _fetch_message,
    ApiKey.FETCH_SNAPSHOT: _snapshot_fetch_message,
    ApiKey.READ_OFFSET: _read_message,
}

#: Errors of a whole request: Kafka has them at the top level, without topics.
WHOLE_REQUEST_ERRORS = {ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION}
