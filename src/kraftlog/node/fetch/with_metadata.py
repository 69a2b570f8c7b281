"""A consumer's fetch of the metadata partition together with other partitions (Q27).

The other partitions are read as in any fetch; the host reads the metadata log and passes on its
batches. The response never opens a session, so the client names all partitions in every fetch.
"""

from __future__ import annotations

from kraftlog.effects import SendRecords
from kraftlog.errors import ErrorCode
from kraftlog.node.fetch.delayed import FEW_PARTITIONS, DelayedFetch
from kraftlog.node.fetch.reading import Reading
from kraftlog.node.fetch_sessions import FINAL_EPOCH, NO_SESSION
from kraftlog.node.handlers.metadata_topic import (
    consumer_response,
    has_secrets,
    is_metadata_topic,
    records_response,
)
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Slice
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def try_serve(node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now) -> bool:
    """Serve a consumer's fetch that names the metadata partition; returns False for any other."""
    if pending.connection.serves & CONTROLLER or _replica_of(request) >= 0:
        return False
    topics = [it for it in request.topics if is_metadata_topic(it.topic, it.topic_id)]
    if len(topics) != 1 or [it.partition for it in topics[0].partitions] != [0]:
        return False
    if has_secrets(node):
        return False
    if request.session_id != NO_SESSION:
        # The consumer begins again with a full fetch, without a session from then on.
        node.fetch_sessions.drop(request.session_id)
        code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        pending.respond(FetchResponse(error_code=code, session_id=NO_SESSION, responses=()))
        return True
    if sum([len(it.partitions) for it in request.topics]) > FEW_PARTITIONS:
        return False
    FetchWithMetadata(node, pending, request, topics[0]).respond_or_wait(now)
    return True


def _replica_of(request: FetchRequest) -> int:
    replica: int = max(request.replica_id, request.replica_state.replica_id)
    return replica


class _TakesRecords:
    """Takes the response with the metadata log's batches from the host."""

    def __init__(self, fetch: FetchWithMetadata) -> None:
        self._fetch = fetch

    def respond(self, response: Any) -> None:
        [partition] = response.responses[0].partitions
        self._fetch.records_read(partition.error_code, partition.high_watermark, partition.records)


class _OthersReading(Reading):
    """Reads the other partitions, if the metadata log's batches leave room for them."""

    __slots__ = ("room",)

    def __init__(self, node: ServingNode, pending: PendingResponse, request: FetchRequest) -> None:
        super().__init__(node, pending, request, None)
        self.room = request.max_bytes

    def leave_room_for(self, records: Any) -> None:
        self.room = self.request.max_bytes - len(records)
        self.request = self.request.replace(max_bytes=max(self.room, 0))

    def _locate(self, partition: Partition, part: FetchPartition) -> Slice | bytes | None:
        return super()._locate(partition, part) if self.room > 0 else None


class FetchWithMetadata(DelayedFetch):
    """Responds once the metadata partition or the others have data, or after `max_wait_ms`."""

    __slots__ = ("metadata", "offset")

    reading: _OthersReading

    def __init__(
        self,
        node: ServingNode,
        pending: PendingResponse,
        request: FetchRequest,
        metadata: FetchTopic,
    ) -> None:
        others = [topic for topic in request.topics if topic is not metadata]
        rest = request.replace(topics=others, session_epoch=FINAL_EPOCH)
        super().__init__(node, pending, rest, None)
        self.metadata = metadata
        self.offset: int = metadata.partitions[0].fetch_offset

    def _new_reading(self) -> Reading:
        return _OthersReading(self.node, self.pending, self.request)

    @property
    def is_enough(self) -> bool:
        """Whether to respond now: records and an offset out of range do not wait."""
        if self.offset != self.node.quorum.core.log.high_watermark:
            return True
        waits = bool(self.reading.partitions) or not self.request.topics
        return not waits or self.request.max_wait_ms <= 0 or self._others_have_enough

    @property
    def _others_have_enough(self) -> bool:
        return self.reading.is_immediate or 0 < self.reading.size >= self.request.min_bytes

    def park(self, deadline_ms: int) -> None:
        super().park(deadline_ms)
        self.node.metadata_fetches.add(self)

    def cancel(self) -> None:
        super().cancel()
        self.node.metadata_fetches.remove(self)

    def respond(self, now: Now) -> None:
        """Have the host read the metadata log first, if it has more records."""
        self.done = True
        node = self.node
        node.metadata_fetches.remove(self)
        log = node.quorum.core.log
        if not log.start <= self.offset <= log.high_watermark:
            self._respond_with(ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"", now)
        elif self.offset == log.high_watermark:
            self._respond_with(ErrorCode.NONE, log.high_watermark, b"", now)
        else:
            part = self.metadata.partitions[0]
            size = min(self.request.max_bytes, part.partition_max_bytes, node.max_fetch_bytes)
            result = records_response(node, self.offset)
            node.emit(SendRecords(_TakesRecords(self), result, METADATA_LOG, size))

    def records_read(self, error: int, high_watermark: int, records: Any) -> None:
        """Read the other partitions again: their files may have changed since."""
        self.reading.leave_room_for(records)
        self.reading.run()
        self._respond_with(error, high_watermark, records, self.node.now)

    def _respond_with(self, error: int, high_watermark: int, records: Any, now: Now) -> None:
        response = self.reading.response
        assert response is not None, "the other partitions are read"
        topic = consumer_response(self.node, self.metadata, error, high_watermark, records)
        response.responses = [topic, *response.responses]
        super().respond(now)
