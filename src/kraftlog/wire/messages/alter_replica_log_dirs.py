"""AlterReplicaLogDirs: move replicas between the log directories of a broker."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class AlterReplicaLogDirTopic(Message):
    name: str = string()
    partitions: Sequence[int] = array("int32")


class AlterReplicaLogDir(Message):
    path: str = string()
    topics: Sequence[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Message, versions=(1, 2), flexible=2):
    dirs: Sequence[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = string()
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = array(
        AlterReplicaLogDirPartitionResult
    )


class AlterReplicaLogDirsResponse(Message, versions=(1, 2), flexible=2):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
