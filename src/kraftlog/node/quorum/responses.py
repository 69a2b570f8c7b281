"""The answers of a quorum in Kafka's wire form, and back.

Bytes of records and snapshots are the host's: it gives them when it writes an answer down, and gets
them, as summaries of batches, when it reads one.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.requests import WHOLE, the_partition
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

NONE = -1


def response_to_wire(body: Any, data: Buffer = b"") -> Message:
    """The response that says what a core answers; `data`: the records or the piece of snapshot."""
    return _TO_WIRE[type(body)](body, data)


def response_from_wire(response: Any, asked: Any) -> Any:
    """What came back on `asked`. The bytes of a fetch are left to `batches.summaries`."""
    return _FROM_WIRE[type(asked)](response, asked)


def _topics(body: Any, topic: Any) -> list[Any]:
    """A refusal of the whole request has no topics."""
    return [] if body.error in WHOLE else [topic]


# Answering ---------------------------------------------------------------------------------------


def _whole(body: Any) -> int:
    return body.error if body.error in WHOLE else 0


def _vote(body: raft.VoteResult, _: Buffer) -> Message:
    partition = votes.PartitionResult(
        partition_index=0,
        error_code=body.error,
        leader_id=body.leader_id,
        leader_epoch=body.epoch,
        vote_granted=body.granted,
    )
    topic = votes.TopicResult(topic_name=METADATA_TOPIC, partitions=[partition])
    return votes.VoteResponse(error_code=_whole(body), topics=_topics(body, topic))


def _begin(body: raft.BeginResult, _: Buffer) -> Message:
    return begins.BeginQuorumEpochResponse(error_code=_whole(body), topics=_who_leads(body, begins))


def _end(body: raft.EndResult, _: Buffer) -> Message:
    return ends.EndQuorumEpochResponse(error_code=_whole(body), topics=_who_leads(body, ends))


def _who_leads(body: raft.BeginResult | raft.EndResult, schema: Any) -> list[Any]:
    """The one partition of an answer that says only who leads, in the structs of its API."""
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
        # A leader names itself, by which the fetcher knows who refuses it (Q31).
        return fetches.FetchResponse(error_code=body.error, responses=[topic])
    return fetches.FetchResponse(error_code=_whole(body), responses=_topics(body, topic))


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
    return snapshots.FetchSnapshotResponse(error_code=_whole(body), topics=_topics(body, topic))


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
        error_code=_whole(body), cluster_id=None, topics=_topics(body, topic)
    )


_TO_WIRE: dict[type, Callable[[Any, Buffer], Message]] = {
    raft.VoteResult: _vote,
    raft.BeginResult: _begin,
    raft.EndResult: _end,
    raft.FetchResult: _fetch,
    raft.SnapshotChunk: _snapshot,
    raft.ReadOffsetResult: _read,
}

# Being answered ----------------------------------------------------------------------------------


def _voted(response: votes.VoteResponse, asked: raft.Vote) -> raft.VoteResult:
    if response.error_code:
        return raft.VoteResult(response.error_code, NONE, asked.epoch, granted=False)
    found = the_partition(response.topics)
    return raft.VoteResult(
        found.error_code, found.leader_id, found.leader_epoch, granted=found.vote_granted
    )


def _begun(response: begins.BeginQuorumEpochResponse, asked: raft.Begin) -> raft.BeginResult:
    if response.error_code:
        return raft.BeginResult(response.error_code, NONE, asked.epoch)
    found = the_partition(response.topics)
    return raft.BeginResult(found.error_code, found.leader_id, found.leader_epoch)


def _ended(response: ends.EndQuorumEpochResponse, asked: raft.End) -> raft.EndResult:
    if response.error_code:
        return raft.EndResult(response.error_code, NONE, asked.epoch)
    found = the_partition(response.topics)
    return raft.EndResult(found.error_code, found.leader_id, found.leader_epoch)


def _fetched(response: fetches.FetchResponse, asked: raft.Fetch) -> raft.FetchResult:
    if response.error_code:
        leader_id = NONE
        if response.responses:
            leader_id = the_partition(response.responses).current_leader.leader_id
        return raft.FetchResult(response.error_code, leader_id, asked.epoch, NONE)
    found = the_partition(response.responses)
    leader, diverging, snapshot = found.current_leader, found.diverging_epoch, found.snapshot_id
    return raft.FetchResult(
        error=found.error_code,
        leader_id=leader.leader_id,
        epoch=leader.leader_epoch if leader.leader_epoch >= 0 else asked.epoch,
        high_watermark=found.high_watermark,
        diverging=_point(diverging.end_offset, diverging.epoch),
        snapshot=_point(snapshot.end_offset, snapshot.epoch),
        offset=asked.offset,
    )


def _point(offset: int, epoch: int) -> OffsetAndEpoch | None:
    return OffsetAndEpoch(offset, epoch) if epoch >= 0 else None


def _chunk(
    response: snapshots.FetchSnapshotResponse, asked: raft.SnapshotFetch
) -> raft.SnapshotChunk:
    if response.error_code:
        return raft.SnapshotChunk(response.error_code, NONE, asked.epoch, asked.id, asked.position)
    found = the_partition(response.topics)
    leader = found.current_leader
    return raft.SnapshotChunk(
        error=found.error_code,
        leader_id=leader.leader_id if leader.leader_epoch else NONE,
        epoch=leader.leader_epoch or asked.epoch,
        id=OffsetAndEpoch(found.snapshot_id.end_offset, found.snapshot_id.epoch),
        position=found.position,
        size=found.size,
        length=len(found.unaligned_records),
        data=bytes(found.unaligned_records),
    )


def _read_at(response: reads.ReadOffsetResponse, asked: raft.ReadOffset) -> raft.ReadOffsetResult:  # noqa: ARG001 - answers are read alike
    if response.error_code:
        return raft.ReadOffsetResult(response.error_code, NONE, NONE, NONE)
    found = the_partition(response.topics)
    return raft.ReadOffsetResult(
        found.error_code, found.leader_id, found.leader_epoch, found.offset
    )


_FROM_WIRE: dict[type, Callable[[Any, Any], Any]] = {
    raft.Vote: _voted,
    raft.Begin: _begun,
    raft.End: _ended,
    raft.Fetch: _fetched,
    raft.SnapshotFetch: _chunk,
    raft.ReadOffset: _read_at,
}
