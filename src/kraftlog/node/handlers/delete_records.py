"""DeleteRecords 0-2: advances log start offsets; offset -1 is the high watermark.

The response waits for the disk of this broker, and up to the timeout for the unfenced replicas.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.replication.delayed_produce import complete_wait
from kraftlog.steps import drained
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
    )

HIGH_WATERMARK = -1
#: Partitions per slice, and the cost of one in microseconds.
PARTITIONS_PER_SLICE = 25
PARTITION_COST = 10
#: Topics whose records only their coordinators delete.
INTERNAL = ("__consumer_offsets", "__transaction_state")


class DelayedDeleteRecords:
    """A request that waits until the new log start offsets have reached disk and replicas."""

    __slots__ = ("_node", "_pending", "_size", "_timeout_ms", "response", "waits")

    def __init__(self, node: ServingNode, pending: PendingResponse) -> None:
        self._node = node
        self._pending = pending
        #: The number of partitions to wait for, plus 1 until the whole request is processed.
        self.waits = 1
        self._timeout_ms = 0
        self._size = 0
        self.response = DeleteRecordsResponse(topics=())

    def respond(self, response: DeleteRecordsResponse) -> None:
        self._node.sliced.run(self._pending, self._pending.respond_in_steps(response, self._size))

    def delete_in_steps(self, request: DeleteRecordsRequest) -> Iterator[int]:
        """Begin to delete; the response is sent when nothing is left to wait for."""
        topics = []
        self._timeout_ms = request.timeout_ms
        for topic in drained(request.topics):
            results = []
            for part in topic.partitions:
                results.append(self._delete(topic.name, part))
                self._size += 1
                if not self._size % PARTITIONS_PER_SLICE:
                    yield PARTITIONS_PER_SLICE * PARTITION_COST
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
            yield 1
        self.response.topics = topics
        complete_wait(self)

    def _delete(self, topic: str, part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        node = self._node
        partition = node.replica_manager.partition(
            topic, NULL_UUID, part.partition_index, by_id=False
        )
        code = (
            partition if isinstance(partition, int) else _error_code(node, partition, part.offset)
        )
        result = DeleteRecordsPartitionResult(
            partition_index=part.partition_index, low_watermark=-1, error_code=code
        )
        if code or isinstance(partition, int):
            return result
        offset = partition.high_watermark if part.offset == HIGH_WATERMARK else part.offset
        node.replica_manager.delete_records(partition, offset, self, result, self._timeout_ms)
        return result


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: DeleteRecordsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    return DelayedDeleteRecords(node, pending).delete_in_steps(request)


def _error_code(node: ServingNode, partition: Partition, offset: int) -> int:
    if partition.topic in INTERNAL:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    code = partition.error_for_request(-1)
    if code:
        return code
    if "delete" not in node.topic_configs.of(partition.topic).config.cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    if offset < HIGH_WATERMARK or offset > partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE
