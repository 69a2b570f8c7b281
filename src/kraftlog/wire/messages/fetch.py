"""Fetch: read record batches, as a consumer, a replica, or a voter or observer of the quorum."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import (
    EMPTY,
    Message,
    array,
    batches,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Buffer, Uuid


class ReplicaState(Message):
    replica_id: int = int32(since=15, default=-1)
    replica_epoch: int = int64(since=15, default=-1)


class FetchPartition(Message):
    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid(since=17, tag=0, default=NULL_UUID, ignorable=True)
    high_watermark: int = int64(since=18, tag=1, default=9223372036854775807, ignorable=True)


class FetchTopic(Message):
    topic: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=NULL_UUID, ignorable=True)
    partitions: Sequence[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Message):
    topic: str = string(since=7, until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=NULL_UUID, ignorable=True)
    partitions: Sequence[int] = array("int32", since=7, default=())


class FetchRequest(Message, versions=(4, 18), flexible=12):
    cluster_id: str | None = string(since=12, nullable=True, tag=0, default=None, ignorable=True)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState = struct(ReplicaState, since=15, tag=1, default=EMPTY)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8(default=0)
    session_id: int = int32(since=7, default=0, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, since=7, default=())
    rack_id: str = string(since=11, default="", ignorable=True)


class EpochEndOffset(Message):
    epoch: int = int32(since=12, default=-1)
    end_offset: int = int64(since=12, default=-1)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32(since=12, default=-1)
    leader_epoch: int = int32(since=12, default=-1)


class SnapshotId(Message):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Message):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Message):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, since=12, tag=0, default=EMPTY)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=12, tag=1, default=EMPTY)
    snapshot_id: SnapshotId = struct(SnapshotId, since=12, tag=2, default=EMPTY)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(
        AbortedTransaction, nullable=True
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Buffer | None = batches(nullable=True)


class FetchableTopicResponse(Message):
    topic: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=NULL_UUID, ignorable=True)
    partitions: Sequence[PartitionData] = array(PartitionData, pieces=True)


class NodeEndpoint(Message):
    node_id: int = int32(since=16, default=0)
    host: str = string(since=16, default="")
    port: int = int32(since=16, default=0)
    rack: str | None = string(since=16, nullable=True, default=None)


class FetchResponse(Message, versions=(4, 18), flexible=12):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=7, default=0, ignorable=True)
    session_id: int = int32(since=7, default=0)
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0, default=())
    #: Of our own, in responses of the quorum: the offset of the committed record that removed the
    #: fetcher from the voters (R7).
    removed_at: int = int64(since=12, tag=10_000, default=-1, ignorable=True)
