"""ReadOffset, an API of our own: the offset that a linearizable read must have applied."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class ReadOffsetPartition(Message):
    partition_index: int = int32()


class ReadOffsetTopic(Message):
    topic_name: str = string()
    partitions: Sequence[ReadOffsetPartition] = array(ReadOffsetPartition)


class ReadOffsetRequest(Message, versions=(0, 0), flexible=0):
    cluster_id: str | None = string(nullable=True)
    read_timestamp_ms: int = int64()
    topics: Sequence[ReadOffsetTopic] = array(ReadOffsetTopic)
    #: The replica that sends the request, and its epoch.
    replica_id: int = int32(tag=0, default=-1)
    replica_directory_id: Uuid = uuid(tag=1, default=NULL_UUID)
    replica_epoch: int = int32(tag=2, default=-1)


class ReadOffsetPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16(default=0)
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32()
    offset: int = int64(default=-1)


class ReadOffsetTopicResult(Message):
    topic_name: str = string()
    partitions: Sequence[ReadOffsetPartitionResult] = array(ReadOffsetPartitionResult)


class ReadOffsetResponse(Message, versions=(0, 0), flexible=0):
    error_code: int = int16(default=0)
    cluster_id: str | None = string(nullable=True)
    topics: Sequence[ReadOffsetTopicResult] = array(ReadOffsetTopicResult)
