"""AlterReplicaLogDirs 1-2: moves replicas between the log directories of this broker."""

from __future__ import annotations

from kraftlog.effects import MoveReplica
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Directory
    from kraftlog.types import LogName, Now
    from kraftlog.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest

#: Cost of a partition in microseconds.
PARTITION_COST = 4
#: The folder of a moving log has a name like topic-partition.UUID-future, of at most 255 bytes.
LONGEST_NAME, SUFFIX_LENGTH = 255, len("." + 32 * "0" + "-future")


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: AlterReplicaLogDirsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    """Begin the moves; DescribeLogDirs shows their progress. The last entry for a replica wins."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    count = 0
    directories = {it.path: it for it in node.logs.directories}
    for target in request.dirs:
        directory = directories.get(target.path.rstrip("/"))
        for topic in target.topics:
            for index in topic.partitions:
                code = _begin_move(node, directory, (topic.name, index))
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                results.setdefault(topic.name, []).append(result)
                count += 1
                yield PARTITION_COST
    response = AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )
    yield from pending.respond_in_steps(response, count)


def _begin_move(node: ServingNode, directory: Directory | None, log: LogName) -> int:
    """Begin to move one replica; returns the error code."""
    if len(f"{log[0]}-{log[1]}") + SUFFIX_LENGTH > LONGEST_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if directory.id in node.cordoned_directories.ids():
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition = node.replica_manager.by_log.get(log)
    if partition is None:
        # A replica may be about to be assigned: Kafka's tool retries until it exists.
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if not partition.is_open:
        return ErrorCode.KAFKA_STORAGE_ERROR
    node.emit(MoveReplica(log, partition.topic_id, directory.id))
    return ErrorCode.NONE
