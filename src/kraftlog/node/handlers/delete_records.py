"""DeleteRecords 0-2: partitions begin later, durably. Offset -1 means all that readers can see.

The time that a client grants is for other replicas, as with Kafka: what this broker's own disk
takes is not held against it, so that a client which grants none gets an answer too.
"""

from __future__ import annotations

from kraftlog.effects import MoveLogStart
from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
    )

HIGH_WATERMARK = -1
#: Topics whose records only their coordinators remove.
INTERNAL = ("__consumer_offsets", "__transaction_state")


def handle(node: Node, slot: Slot, request: DeleteRecordsRequest, now: Now) -> None:  # noqa: ARG001 - handlers are called alike
    slot.waits = 1  # this handler itself: the answer may not leave before it is complete
    slot.response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(node, slot, topic.name, part) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    slot.waits -= 1
    if not slot.waits:
        slot.answer(slot.response)


def _delete(
    node: Node, slot: Slot, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    partition = node.partition(topic, NULL_UUID, asked.partition_index, by_id=False)
    code = partition if isinstance(partition, int) else _refusal(node, partition, asked.offset)
    told = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=code
    )
    if code or isinstance(partition, int):
        return told
    offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if offset <= partition.stored_start:
        told.low_watermark = partition.stored_start
        return told
    partition.start = max(partition.start, offset)  # nobody reads there from now on
    slot.waits += 1
    partition.deletions.append((offset, slot, told))
    node.emit(MoveLogStart(partition.log, offset))
    return told


def _refusal(node: Node, partition: Partition, offset: int) -> int:
    if partition.topic in INTERNAL:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    code = partition.refusal(-1)
    if code:
        return code
    if "delete" not in node.topic_configs.of(partition.topic).config.cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    if offset < HIGH_WATERMARK or offset > partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE
