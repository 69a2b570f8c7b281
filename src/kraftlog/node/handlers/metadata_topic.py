"""The metadata log as a topic that any consumer can read from any broker, for debugging (Q27).

If a request names it, Metadata and DescribeTopicPartitions describe it as internal, with the voters
as replicas; Kafka's tool for reassignments needs that to move the voters (R2). Every broker has the
log and serves what is committed. Kafka's brokers do not know the topic.
"""

from __future__ import annotations

from kraftlog.effects import SendRecords
from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.quorum import fetch_metadata
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.raft.messages import FetchResult
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraftlog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.fetch import FetchRequest, FetchTopic

#: Special timestamps of ListOffsets: the end, the start and the local start of the log.
LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4


def is_metadata_topic(name: str | None, topic_id: Uuid) -> bool:
    return name == METADATA_TOPIC or topic_id == METADATA_TOPIC_ID


def describe_topic(node: ServingNode, listener: str, operations: int) -> MetadataResponseTopic:
    """The topic in a Metadata response.

    It names the quorum's leader as the leader if clients can reach that node as a broker, else
    this broker.
    """
    leader = node.image.brokers.get(node.quorum.leader_id)
    is_reachable = leader is not None and not leader.fenced and leader.endpoint(listener)
    voters = node.quorum.core.log.voter_set.ids
    partition = MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=0,
        leader_id=leader.id if leader is not None and is_reachable else node.config.node_id,
        # Any broker serves it, so there is no epoch to be fenced by.
        leader_epoch=-1,
        replica_nodes=voters,
        isr_nodes=voters,
        offline_replicas=(),
    )
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        is_internal=True,
        partitions=[partition],
        topic_authorized_operations=operations,
    )


def describe_topic_from(
    node: ServingNode, listener: str, operations: int, first: int
) -> DescribeTopicPartitionsResponseTopic:
    """The topic in a DescribeTopicPartitions response, from partition `first` on."""
    topic = describe_topic(node, listener, operations)
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=part.error_code,
            partition_index=part.partition_index,
            leader_id=part.leader_id,
            leader_epoch=part.leader_epoch,
            replica_nodes=part.replica_nodes,
            isr_nodes=part.isr_nodes,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=part.offline_replicas,
        )
        for part in topic.partitions
    ]
    return DescribeTopicPartitionsResponseTopic(
        error_code=topic.error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions[first:],
        topic_authorized_operations=operations,
    )


def offset_of(node: ServingNode, timestamp: int) -> int:
    """The offset that ListOffsets returns; -1 for a real timestamp: the log is not searched."""
    log = node.quorum.core.log
    if timestamp == LATEST:
        return log.high_watermark
    return log.start if timestamp in {EARLIEST, EARLIEST_LOCAL} else -1


def try_serve(node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now) -> bool:
    """Serve a fetch of the metadata partition alone; returns False for any other fetch."""
    if pending.connection.serves & CONTROLLER and _is_for_metadata(request):
        fetch_metadata(node, pending, request, now)
        return True
    if _is_consumer_fetch_of_metadata(pending, request) and not has_secrets(node):
        MetadataFetch(node, pending, request).respond_or_wait(now)
        return True
    return False


def _is_for_metadata(request: FetchRequest) -> bool:
    """Whether a request is for the metadata partition; `fetch_metadata` refuses further topics."""
    topic = request.topics[0]
    return topic.topic_id == METADATA_TOPIC_ID and all(it.partition == 0 for it in topic.partitions)


def _is_consumer_fetch_of_metadata(pending: PendingResponse, request: FetchRequest) -> bool:
    """Whether a consumer fetches only the metadata partition, from a broker, without a session."""
    if pending.connection.serves & CONTROLLER or request.session_id or len(request.topics) != 1:
        return False
    topic = request.topics[0]
    is_alone = len(topic.partitions) == 1 and topic.partitions[0].partition == 0
    replica = max(request.replica_id, request.replica_state.replica_id)
    return is_alone and replica < 0 and is_metadata_topic(topic.topic, topic.topic_id)


def has_secrets(node: ServingNode) -> bool:
    """Whether the metadata log may have credentials or keys: then brokers do not serve it.

    From the stored keys of SCRAM passwords can be guessed, even by those who may read all topics.
    """
    settings = node.config.settings
    return settings.uses_tls or settings.uses_sasl or bool(node.image.scram)


def records_response(node: ServingNode, offset: int) -> FetchResult:
    """The response of the quorum that the host fills with the committed batches from an offset."""
    quorum, end = node.quorum, node.quorum.core.log.high_watermark
    return FetchResult(
        ErrorCode.NONE, quorum.leader_id, quorum.epoch, end, offset=offset, limit=end
    )


def consumer_response(
    node: ServingNode, topic: FetchTopic, error: int, high_watermark: int, records: Any
) -> FetchableTopicResponse:
    """The metadata partition in the response to a consumer."""
    partition = PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=node.quorum.core.log.start if not error else -1,
        aborted_transactions=None,
        records=records,
    )
    return FetchableTopicResponse(
        topic=topic.topic, topic_id=topic.topic_id, partitions=[partition]
    )


class MetadataFetch:
    """A consumer's fetch of the metadata partition, which waits for new records like any fetch."""

    __slots__ = ("done", "node", "pending", "request")

    def __init__(self, node: ServingNode, pending: PendingResponse, request: FetchRequest) -> None:
        self.node = node
        self.pending = pending
        self.request = request
        self.done = False

    @property
    def offset(self) -> int:
        offset: int = self.request.topics[0].partitions[0].fetch_offset
        return offset

    def respond_or_wait(self, now: Now) -> None:
        wait_ms = self.request.max_wait_ms
        if self.offset == self.node.quorum.core.log.high_watermark and wait_ms > 0:
            self.pending.waiter = self
            self.node.metadata_fetches.add(self)
            self.node.wait(self, now.monotonic_ms + wait_ms)
        else:
            self._read()

    def expire(self, _: Now) -> None:
        if not self.done:
            self._read()

    def cancel(self) -> None:
        self.done = True
        self.node.metadata_fetches.remove(self)

    def _read(self) -> None:
        """Have the host read batches; it passes `respond` the response that a replica would get."""
        self.cancel()
        log = self.node.quorum.core.log
        if not log.start <= self.offset <= log.high_watermark:
            self._respond(ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"")
            return
        result = records_response(self.node, self.offset)
        part = self.request.topics[0].partitions[0]
        max_bytes = min(self.request.max_bytes, part.partition_max_bytes, self.node.max_fetch_bytes)
        if result.limit > result.offset:
            self.node.emit(SendRecords(self, result, METADATA_LOG, max_bytes))
        else:
            self._respond(ErrorCode.NONE, result.high_watermark, b"")

    def respond(self, response: Any) -> None:
        """Turn the response for a replica into one for a consumer, and send it."""
        [partition] = response.responses[0].partitions
        self._respond(partition.error_code, partition.high_watermark, partition.records)

    def _respond(self, error: int, high_watermark: int, records: Any) -> None:
        topic = self.request.topics[0]
        response = consumer_response(self.node, topic, error, high_watermark, records)
        self.pending.respond(FetchResponse(error_code=ErrorCode.NONE, responses=[response]))
