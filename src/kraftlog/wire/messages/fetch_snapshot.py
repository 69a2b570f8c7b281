"""FetchSnapshot: a metadata snapshot, chunk by chunk."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import (
    EMPTY,
    Message,
    array,
    batches,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Buffer, Uuid


class SnapshotId(Message):
    end_offset: int = int64()
    epoch: int = int32()


class PartitionSnapshot(Message):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: Uuid = uuid(since=1, tag=0, default=NULL_UUID, ignorable=True)


class TopicSnapshot(Message):
    name: str = string()
    partitions: Sequence[PartitionSnapshot] = array(PartitionSnapshot)


class FetchSnapshotRequest(Message, versions=(0, 1), flexible=0):
    cluster_id: str | None = string(nullable=True, tag=0, default=None)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: Sequence[TopicSnapshot] = array(TopicSnapshot)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionSnapshotResult(Message):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = struct(SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0, default=EMPTY)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer = batches()


class TopicSnapshotResult(Message):
    name: str = string()
    partitions: Sequence[PartitionSnapshotResult] = array(PartitionSnapshotResult)


class NodeEndpoint(Message):
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


class FetchSnapshotResponse(Message, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: Sequence[TopicSnapshotResult] = array(TopicSnapshotResult)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0, default=())
