"""DeleteRecords 0-2: partitions begin later, durably. Offset -1 means all that readers can see."""

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


class DeletionWait:
    """A request that waits for the disk, and for no longer than it said."""

    __slots__ = ("partitions", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.partitions: list[Partition] = []

    @property
    def done(self) -> bool:
        return not self.slot.waits

    def expire(self, node: Node, now: Now) -> None:  # noqa: ARG002 - whatever waits is called alike
        for partition in self.partitions:
            for told in partition.give_up_deletions(self.slot):
                told.error_code = ErrorCode.REQUEST_TIMED_OUT
                node.one_done(self.slot)


def handle(node: Node, slot: Slot, request: DeleteRecordsRequest, now: Now) -> None:
    wait = DeletionWait(slot)
    slot.waits = 1  # this handler itself: the answer may not leave before it is complete
    slot.response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(node, wait, topic.name, part) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    slot.waits -= 1
    if not slot.waits:
        slot.answer(slot.response)
    else:
        node.wait(wait, now.monotonic_ms + max(0, request.timeout_ms))


def _delete(
    node: Node, wait: DeletionWait, topic: str, asked: DeleteRecordsPartition
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
    wait.slot.waits += 1
    wait.partitions.append(partition)
    partition.deletions.append((offset, wait.slot, told))
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
