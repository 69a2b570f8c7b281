"""Fetch 4-18: batches as they lie in the file, answered when there is enough of them or it is time.

Readers see what is below the high watermark. Sessions are declined (id 0), which every client
accepts. Missing: followers, the last stable offset.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.node.quorum.requests import request_from_wire
from kraftlog.types import METADATA_TOPIC_ID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.ports.logs import Slice
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

BY_ID_SINCE = 13
#: The most that one answer carries (Kafka's default for fetch.max.bytes), whatever was asked for.
MAX_BYTES = 57_671_680


def handle(node: Node, slot: Slot, request: FetchRequest, now: Now) -> None:
    if request.topics and request.topics[0].topic_id == METADATA_TOPIC_ID:
        body = request_from_wire(ApiKey.FETCH, request)
        node.quorum.asked(slot, body, slot.connection, now, body.max_bytes)
        return
    fetch = Fetch(slot, request)
    fetch.look(node)
    if fetch.size >= request.min_bytes or fetch.failed or request.max_wait_ms <= 0:
        fetch.answer()
    else:
        fetch.park(node, now.monotonic_ms + request.max_wait_ms)


class Fetch:
    """One fetch on its way: what it has found so far, and whether it was answered."""

    __slots__ = ("done", "failed", "partitions", "request", "response", "size", "slot")

    def __init__(self, slot: Slot, request: FetchRequest) -> None:
        self.slot = slot
        self.request = request
        self.done = False
        self.failed = False
        self.size = 0
        self.partitions: list[Partition] = []
        self.response: FetchResponse | None = None

    def look(self, node: Node) -> None:
        """Find what there is now, afresh."""
        self.size = 0
        self.failed = False
        self.partitions = []
        self.response = FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=0,
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[self._look_at(node, topic, part) for part in topic.partitions],
                )
                for topic in self.request.topics
            ],
        )

    def _look_at(self, node: Node, topic: FetchTopic, part: FetchPartition) -> PartitionData:
        partition = node.partition(
            topic.topic, topic.topic_id, part.partition, self.slot.version >= BY_ID_SINCE
        )
        code = (
            partition
            if isinstance(partition, int)
            else partition.refusal(part.current_leader_epoch)
        )
        if code or isinstance(partition, int):
            return self._refused(part.partition, code)
        if not partition.start <= part.fetch_offset <= partition.end:
            return self._refused(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.partitions.append(partition)
        found = None
        if part.fetch_offset < partition.high_watermark:
            try:
                found = self._locate(node, partition, part)
            except StorageError:
                return self._refused(part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if found is not None:
            self.size += len(found)
        return PartitionData(
            partition_index=part.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=partition.start,
            aborted_transactions=None,
            records=b"" if found is None else found,  # type: ignore[arg-type]  # bytes still in a file
        )

    def _locate(self, node: Node, partition: Partition, part: FetchPartition) -> Slice | None:
        return node.logs.locate(
            partition.log,
            part.fetch_offset,
            partition.high_watermark,
            min(
                part.partition_max_bytes, self.request.max_bytes - self.size, MAX_BYTES - self.size
            ),
            self.size == 0,
        )

    def _refused(self, index: int, code: int) -> PartitionData:
        self.failed = True
        return PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )

    def park(self, node: Node, deadline_ms: int) -> None:
        node.wait(self, deadline_ms)
        self.slot.waiter = self
        for partition in self.partitions:
            partition.fetches[self] = None

    def try_again(self, node: Node) -> None:
        """The high watermark of a partition has moved, or the partition is gone."""
        watched = self.partitions
        self.look(node)
        if self.size >= self.request.min_bytes or self.failed:
            self.partitions = watched
            self.answer()

    def expire(self, node: Node, now: Now) -> None:  # noqa: ARG002 - waiters are called alike
        if not self.done:
            self.look(node)
            self.answer()

    def answer(self) -> None:
        self.cancel()
        self.slot.answer(self.response)

    def cancel(self) -> None:
        self.done = True
        for partition in self.partitions:
            partition.fetches.pop(self, None)
