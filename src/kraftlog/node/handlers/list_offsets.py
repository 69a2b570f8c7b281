"""ListOffsets 1-11: the ends of a log, and where a moment in time lies in it.

Timestamps below zero have meanings: -1 the end (high watermark), -2 the start, -3 the newest
timestamp; -4 to -6 ask about tiered storage, of which there is none: -4 is -2, the others are
nothing. Each may be asked for since a version; others are UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode, StorageError
from kraftlog.steps import drained
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest

END = -1
START = -2
NEWEST = -3
LOCAL_START = -4
#: The first version that may ask for each of them; -5 and -6 are about tiered storage.
SINCE = {END: 1, START: 1, NEWEST: 7, LOCAL_START: 8, -5: 9, -6: 11}
NEVER = 1 << 15

#: After so many partitions there is a pause; one costs so many microseconds beside the search.
PARTITIONS_IN_A_STEP = 50
A_PARTITION_COSTS = 4
#: The first version that tells the leader epoch of what was found.
EPOCH_SINCE = 4


def handle(
    node: Node,
    slot: PendingResponse,
    request: ListOffsetsRequest,
    now: Now,  # noqa: ARG001 - every handler is called alike
) -> Iterator[int]:
    version, topics, count = slot.version, [], 0
    for topic in drained(request.topics):
        found = []
        for number, part in enumerate(topic.partitions, 1):
            found.append((yield from _one(node, version, topic.name, part)))
            if not number % PARTITIONS_IN_A_STEP:
                yield PARTITIONS_IN_A_STEP * A_PARTITION_COSTS
        yield (len(found) % PARTITIONS_IN_A_STEP) * A_PARTITION_COSTS
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
        count += len(found)
    yield from slot.respond_in_steps(ListOffsetsResponse(topics=topics), count)


def _one(
    node: Node, version: int, topic: str, asked: ListOffsetsPartition
) -> Generator[int, None, ListOffsetsPartitionResponse]:
    partition = node.replica_manager.partition(topic, NULL_UUID, asked.partition_index, by_id=False)
    code = (
        partition if isinstance(partition, int) else partition.refusal(asked.current_leader_epoch)
    )
    if asked.timestamp < 0 and version < SINCE.get(asked.timestamp, NEVER):
        code = ErrorCode.UNSUPPORTED_VERSION
    if code or isinstance(partition, int):
        return _refused(asked.partition_index, code)
    try:
        offset, timestamp = yield from _find(node, partition, asked.timestamp)
    except StorageError:
        return _refused(asked.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptBatchError as error:
        # A time is looked for in records, and those are as some producer made them.
        return _refused(asked.partition_index, error.code)
    code = partition.refusal(asked.current_leader_epoch)
    if code:  # the partition has moved, or is deleted, since
        return _refused(asked.partition_index, code)
    found = offset >= 0
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=(
            _epoch_of(node, partition, offset) if found and version >= EPOCH_SINCE else -1
        ),
    )


def _epoch_of(node: Node, partition: Partition, offset: int) -> int:
    """The epoch of the record there; at the end it would be the leader's own."""
    if offset >= partition.high_watermark:
        return partition.leader_epoch
    return node.logs.epoch_at(partition.log, offset)


def _refused(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _find(
    node: Node, partition: Partition, timestamp: int
) -> Generator[int, None, tuple[int, int]]:
    """Offset and timestamp; both -1 where there is nothing to be found."""
    if timestamp == END:
        return partition.high_watermark, -1
    if timestamp in {START, LOCAL_START}:
        return partition.start, -1
    if timestamp == NEWEST:
        timestamp = node.logs.newest_timestamp(partition.log)
    if timestamp < 0:
        return -1, -1
    limit = partition.high_watermark
    found = yield from node.logs.finding_timestamp(partition.log, timestamp, limit)
    return found or (-1, -1)
