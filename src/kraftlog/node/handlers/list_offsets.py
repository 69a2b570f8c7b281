"""ListOffsets 1-11: log start offset, high watermark, and offsets by timestamp.

Negative timestamps are special: -1 latest (high watermark), -2 earliest, -3 maximum timestamp.
-4 to -6 are for tiered storage, which is not supported: -4 means the same as -2, the others find
nothing. A special timestamp in a request older than the first version that has it gets
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode, StorageError
from kraftlog.node.handlers.metadata_topic import offset_of
from kraftlog.steps import drained
from kraftlog.types import METADATA_TOPIC, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
#: The first version with each special timestamp; -5 and -6 are for tiered storage.
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}
#: Larger than any version.
NO_VERSION = 1 << 15
#: The first version with OFFSET_NOT_AVAILABLE, from a new leader (KIP-207).
NOT_AVAILABLE_SINCE = 5

#: Partitions per slice, and the cost of one in microseconds without the search.
PARTITIONS_PER_SLICE = 50
PARTITION_COST = 4
#: The first version with the leader epoch of the offset.
EPOCH_SINCE = 4


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: ListOffsetsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    version, topics, count = pending.version, [], 0
    for topic in drained(request.topics):  # each is freed after its turn, not all in one step
        partitions = []
        for number, part in enumerate(topic.partitions, 1):
            partitions.append((yield from _partition(node, version, topic.name, part)))
            if not number % PARTITIONS_PER_SLICE:
                yield PARTITIONS_PER_SLICE * PARTITION_COST
        yield (len(partitions) % PARTITIONS_PER_SLICE) * PARTITION_COST
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        count += len(partitions)
    yield from pending.respond_in_steps(ListOffsetsResponse(topics=topics), count)


def _partition(
    node: ServingNode, version: int, topic: str, part: ListOffsetsPartition
) -> Generator[int, None, ListOffsetsPartitionResponse]:
    if topic == METADATA_TOPIC and not part.partition_index:
        supported = part.timestamp >= 0 or version >= SINCE.get(part.timestamp, NO_VERSION)
        return ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=ErrorCode.NONE if supported else ErrorCode.UNSUPPORTED_VERSION,
            offset=offset_of(node, part.timestamp) if supported else -1,
        )
    partition = node.replica_manager.partition(topic, NULL_UUID, part.partition_index, by_id=False)
    code = (
        partition
        if isinstance(partition, int)
        else partition.error_for_request(part.current_leader_epoch)
    )
    if part.timestamp < 0 and version < SINCE.get(part.timestamp, NO_VERSION):
        code = ErrorCode.UNSUPPORTED_VERSION
    if code or isinstance(partition, int):
        return _refused(part.partition_index, code)
    try:
        offset, timestamp = yield from _find(node, partition, part.timestamp)
    except StorageError:
        return _refused(part.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptBatchError as error:
        # The search reads records, which the broker does not validate when it appends them.
        return _refused(part.partition_index, error.code)
    code = partition.error_for_request(part.current_leader_epoch)
    if code:  # the partition may have moved or be deleted during the search
        return _refused(part.partition_index, code)
    is_found = offset >= 0
    if not partition.has_valid_end and (part.timestamp == LATEST or not is_found):
        is_known_error = version >= NOT_AVAILABLE_SINCE
        code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known_error else ErrorCode.LEADER_NOT_AVAILABLE
        return _refused(part.partition_index, code)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=(
            _epoch_of(node, partition, part.timestamp, offset)
            if is_found and version >= EPOCH_SINCE
            else -1
        ),
    )


def _epoch_of(node: ServingNode, partition: Partition, timestamp: int, offset: int) -> int:
    """The leader epoch of the record at an offset; at the high watermark, the current one.

    The start of the log has the epoch of its first record, committed or not. In an empty log it
    has that of the last deleted record, or the partition's first epoch: every later leader knows
    that one, but the next may never have heard of the current one, and have uncommitted records of
    an older epoch here. Its consumers would count as diverged.
    """
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        if partition.start < partition.written_end:
            return node.logs.epoch_at(partition.log, offset)
        return max(node.logs.latest_epoch(partition.log), partition.first_leader_epoch)
    if offset >= partition.high_watermark:
        return partition.leader_epoch
    return node.logs.epoch_at(partition.log, offset)


def _refused(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _find(
    node: ServingNode, partition: Partition, timestamp: int
) -> Generator[int, None, tuple[int, int]]:
    """Offset and timestamp; -1, -1 if nothing is found."""
    if timestamp == LATEST:
        return partition.high_watermark, -1
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return partition.start, -1
    if timestamp == MAX_TIMESTAMP:
        timestamp = node.logs.max_timestamp(partition.log)
    if timestamp < 0:
        return -1, -1
    limit = partition.high_watermark
    result = yield from node.logs.find_timestamp_in_steps(partition.log, timestamp, limit)
    return result or (-1, -1)
