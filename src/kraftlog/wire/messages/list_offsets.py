"""ListOffsets: the offset for a timestamp; negative timestamps stand for the ends of the log."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListOffsetsPartition(Message):
    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsTopic(Message):
    name: str = string()
    partitions: Sequence[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, versions=(1, 11), flexible=6):
    replica_id: int = int32()
    isolation_level: int = int8(since=2, default=0)
    topics: Sequence[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = string()
    partitions: Sequence[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, versions=(1, 11), flexible=6):
    throttle_time_ms: int = int32(since=2, default=0, ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
