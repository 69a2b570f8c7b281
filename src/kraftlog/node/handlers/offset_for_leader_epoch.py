"""OffsetForLeaderEpoch 2-4: end offsets of epochs, by which consumers detect truncation."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.replication.leader_epochs import end_of_epoch
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


#: Partitions per slice, and the cost of one in microseconds.
PARTITIONS_PER_SLICE = 50
PARTITION_COST = 4


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: OffsetForLeaderEpochRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    topics = []
    count = 0
    for topic in request.topics:
        partitions = []
        for number, part in enumerate(topic.partitions, 1):
            partitions.append(_end_offset(node, topic.topic, part))
            if not number % PARTITIONS_PER_SLICE:
                yield PARTITIONS_PER_SLICE * PARTITION_COST
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        count += 1 + len(partitions)
        yield (1 + len(partitions) % PARTITIONS_PER_SLICE) * PARTITION_COST
    yield from pending.respond_in_steps(OffsetForLeaderEpochResponse(topics=topics), count)


def _end_offset(node: ServingNode, topic: str, part: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = node.replica_manager.partition(topic, NULL_UUID, part.partition, by_id=False)
    code = (
        partition
        if isinstance(partition, int)
        else partition.error_for_request(part.current_leader_epoch)
    )
    if code or isinstance(partition, int):
        return EpochEndOffset(error_code=code, partition=part.partition)
    epoch, end = end_of_epoch(node.logs, partition, part.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE, partition=part.partition, leader_epoch=epoch, end_offset=end
    )
