"""Responses between replicas of the metadata quorum: raft messages to Kafka's responses and back.

The host adds the bytes of records and snapshots when it encodes a response. A received error
response without leader and epoch counts as one of the request's epoch.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.requests import WHOLE_REQUEST_ERRORS, only_partition
from kraftlog.raft import messages as raft
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import begin_quorum_epoch as begins
from kraftlog.wire.messages import end_quorum_epoch as ends
from kraftlog.wire.messages import fetch as fetches
from kraftlog.wire.messages import fetch_snapshot as snapshots
from kraftlog.wire.messages import read_offset as reads
from kraftlog.wire.messages import vote as votes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Message

#: Instead of a leader id, an epoch or an offset.
NONE = -1


def response_to_wire(body: Any, data: Buffer = b"") -> Message:
    """The response for a raft message; `data`: the records or the snapshot chunk."""
    return _TO_WIRE[type(body)](body, data)


def response_from_wire(response: Any, request: Any) -> Any:
    """The raft message of a response to `request`, without its batches (`batches.summaries`)."""
    return _FROM_WIRE[type(request)](response, request)


def _topics(body: Any, topic: Any) -> list[Any]:
    """The topics of a response; none for an error of the whole request."""
    return [] if body.error in WHOLE_REQUEST_ERRORS else [topic]


# To Kafka's responses ----------------------------------------------------------------------------


def _request_error(body: Any) -> int:
    return body.error if body.error in WHOLE_REQUEST_ERRORS else 0


def _vote(body: raft.VoteResult, _: Buffer) -> Message:
    partition = votes.PartitionResult(
        partition_index=0,
        error_code=body.error,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
        vote_granted=body.granted,
    )
    topic = votes.TopicResult(topic_name=METADATA_TOPIC, partitions=[partition])
    return votes.VoteResponse(error_code=_request_error(body), topics=_topics(body, topic))


def _begin(body: raft.BeginEpochResult, _: Buffer) -> Message:
    return begins.BeginQuorumEpochResponse(
        error_code=_request_error(body), topics=_leader_topics(body, begins)
    )


def _end(body: raft.EndEpochResult, _: Buffer) -> Message:
    return ends.EndQuorumEpochResponse(
        error_code=_request_error(body), topics=_leader_topics(body, ends)
    )


def _leader_topics(body: raft.BeginEpochResult | raft.EndEpochResult, schema: Any) -> list[Any]:
    """The topics of a response with only error, leader and epoch, in the structs of its API."""
    partition = schema.PartitionResult(
        partition_index=0,
        error_code=body.error,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
    )
    return _topics(body, schema.TopicResult(topic_name=METADATA_TOPIC, partitions=[partition]))


def _fetch(body: raft.FetchResult, data: Buffer) -> Message:
    partition = fetches.PartitionData(
        partition_index=0,
        error_code=body.error,
        high_watermark=body.high_watermark,
        current_leader=fetches.LeaderIdAndEpoch(leader_id=body.leader_id, leader_epoch=body.epoch),
        aborted_transactions=None,
        records=data,
    )
    if body.diverging is not None:
        partition.diverging_epoch = fetches.EpochEndOffset(
            epoch=body.diverging.epoch, end_offset=body.diverging.offset
        )
    if body.snapshot is not None:
        partition.snapshot_id = fetches.SnapshotId(
            end_offset=body.snapshot.offset, epoch=body.snapshot.epoch
        )
    topic = fetches.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    if body.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
        # A leader names itself, so that the fetcher knows that the leader refuses it (Q31).
        return fetches.FetchResponse(error_code=body.error, responses=[topic])
    return fetches.FetchResponse(
        error_code=_request_error(body),
        responses=_topics(body, topic),
        removed_at=body.removed_at,
    )


def _snapshot(body: raft.SnapshotChunk, data: Buffer) -> Message:
    partition = snapshots.PartitionSnapshotResult(
        index=0,
        error_code=body.error,
        snapshot_id=snapshots.SnapshotId(end_offset=body.id.offset, epoch=body.id.epoch),
        current_leader=snapshots.LeaderIdAndEpoch(
            leader_id=body.leader_id, leader_epoch=body.epoch
        ),
        size=max(body.size, 0),
        position=body.position,
        unaligned_records=data,
    )
    topic = snapshots.TopicSnapshotResult(name=METADATA_TOPIC, partitions=[partition])
    return snapshots.FetchSnapshotResponse(
        error_code=_request_error(body), topics=_topics(body, topic)
    )


def _read(body: raft.ReadOffsetResult, _: Buffer) -> Message:
    partition = reads.ReadOffsetPartitionResult(
        partition_index=0,
        error_code=body.error,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
        offset=body.offset,
    )
    topic = reads.ReadOffsetTopicResult(topic_name=METADATA_TOPIC, partitions=[partition])
    return reads.ReadOffsetResponse(
        error_code=_request_error(body), cluster_id=None, topics=_topics(body, topic)
    )


_TO_WIRE: dict[type, Callable[[Any, Buffer], Message]] = {
    raft.VoteResult: _vote,
    raft.BeginEpochResult: _begin,
    raft.EndEpochResult: _end,
    raft.FetchResult: _fetch,
    raft.SnapshotChunk: _snapshot,
    raft.ReadOffsetResult: _read,
}

# From Kafka's responses --------------------------------------------------------------------------


def _vote_result(response: votes.VoteResponse, request: raft.Vote) -> raft.VoteResult:
    if response.error_code:
        return raft.VoteResult(response.error_code, NONE, request.epoch, granted=False)
    partition = only_partition(response.topics)
    return raft.VoteResult(
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        granted=partition.vote_granted,
    )


def _begin_result(
    response: begins.BeginQuorumEpochResponse, request: raft.BeginEpoch
) -> raft.BeginEpochResult:
    if response.error_code:
        return raft.BeginEpochResult(response.error_code, NONE, request.epoch)
    partition = only_partition(response.topics)
    return raft.BeginEpochResult(partition.error_code, partition.leader_id, partition.leader_epoch)


def _end_result(
    response: ends.EndQuorumEpochResponse, request: raft.EndEpoch
) -> raft.EndEpochResult:
    if response.error_code:
        return raft.EndEpochResult(response.error_code, NONE, request.epoch)
    partition = only_partition(response.topics)
    return raft.EndEpochResult(partition.error_code, partition.leader_id, partition.leader_epoch)


def _fetch_result(response: fetches.FetchResponse, request: raft.Fetch) -> raft.FetchResult:
    if response.error_code:
        leader_id = NONE
        if response.responses:
            leader_id = only_partition(response.responses).current_leader.leader_id
        return raft.FetchResult(response.error_code, leader_id, request.epoch, NONE)
    partition = only_partition(response.responses)
    leader, diverging, snapshot = (
        partition.current_leader,
        partition.diverging_epoch,
        partition.snapshot_id,
    )
    return raft.FetchResult(
        error=partition.error_code,
        leader_id=leader.leader_id,
        epoch=leader.leader_epoch if leader.leader_epoch >= 0 else request.epoch,
        high_watermark=partition.high_watermark,
        diverging=_offset_and_epoch(diverging.end_offset, diverging.epoch),
        snapshot=_offset_and_epoch(snapshot.end_offset, snapshot.epoch),
        offset=request.offset,
        removed_at=response.removed_at,
    )


def _offset_and_epoch(offset: int, epoch: int) -> OffsetAndEpoch | None:
    return OffsetAndEpoch(offset, epoch) if epoch >= 0 else None


def _snapshot_chunk(
    response: snapshots.FetchSnapshotResponse, request: raft.SnapshotFetch
) -> raft.SnapshotChunk:
    if response.error_code:
        return raft.SnapshotChunk(
            response.error_code, NONE, request.epoch, request.id, request.position
        )
    partition = only_partition(response.topics)
    leader = partition.current_leader
    return raft.SnapshotChunk(
        error=partition.error_code,
        leader_id=leader.leader_id if leader.leader_epoch else NONE,
        epoch=leader.leader_epoch or request.epoch,
        id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        size=partition.size,
        length=len(partition.unaligned_records),
        data=bytes(partition.unaligned_records),
    )


def _read_result(response: reads.ReadOffsetResponse, _: raft.ReadOffset) -> raft.ReadOffsetResult:
    if response.error_code:
        return raft.ReadOffsetResult(response.error_code, NONE, NONE, NONE)
    partition = only_partition(response.topics)
    return raft.ReadOffsetResult(
        partition.error_code, partition.leader_id, partition.leader_epoch, partition.offset
    )


_FROM_WIRE: dict[type, Callable[[Any, Any], Any]] = {
    raft.Vote: _vote_result,
    raft.BeginEpoch: _begin_result,
    raft.EndEpoch: _end_result,
    raft.Fetch: _fetch_result,
    raft.SnapshotFetch: _snapshot_chunk,
    raft.ReadOffset: _read_result,
}
