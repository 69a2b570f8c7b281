"""AssignReplicasToDirs: a broker reports the log directories of its replicas."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class PartitionData(Message):
    partition_index: int = int32()


class TopicData(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class DirectoryData(Message):
    id: Uuid = uuid()
    topics: Sequence[TopicData] = array(TopicData)


class AssignReplicasToDirsRequest(Message, versions=(0, 0), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: Sequence[DirectoryData] = array(DirectoryData)


class PartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


class TopicResult(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class DirectoryResult(Message):
    id: Uuid = uuid()
    topics: Sequence[TopicResult] = array(TopicResult)


class AssignReplicasToDirsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    directories: Sequence[DirectoryResult] = array(DirectoryResult)
