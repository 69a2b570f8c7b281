"""`Reading`: finds what a Fetch request asks for, and the response with it."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.node.fetch import follower_news
from kraftlog.node.fetch.encoded_partitions import partition_encoder
from kraftlog.node.fetch.follower_read import read_changed
from kraftlog.node.fetch.nearest_replica import redirect_to_follower
from kraftlog.node.fetch.reader import Reader, refused
from kraftlog.node.fetch_sessions import BY_ID_SINCE, INITIAL_EPOCH, NO_SESSION
from kraftlog.node.leaders import add_current_leaders
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.fetch_sessions import FetchSession, SessionPartition, SessionTopic
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Slice
    from kraftlog.replication.counts import TopicCounts
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.quotas import ReplicationQuota
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

#: The first version whose errors name the leader.
LEADERS_SINCE = 16
#: Costs in microseconds: checking a partition, and locating and reading its records. A slice ends
#: after `SLICE_COST`.
CHECK_COST = 3
READ_COST = 40
SLICE_COST = 200
#: The isolation level whose responses list aborted transactions.
READ_COMMITTED = 1


class Reading:
    """Reads from scratch each time; its fields are what the last read has found."""

    __slots__ = (
        "_node",
        "_pending",
        "encode_partition",
        "encoded",
        "has_errors",
        "is_immediate",
        "is_soon",
        "partitions",
        "reader",
        "request",
        "response",
        "sent_bytes",
        "session",
        "size",
        "throttle",
        "throttled_bytes",
    )

    def __init__(
        self,
        node: ServingNode,
        pending: PendingResponse,
        request: FetchRequest,
        session: FetchSession | None,
    ) -> None:
        """`session`: the session that the request continues."""
        self._node = node
        self._pending = pending
        self.request = request
        self.session = session
        self.reader = Reader(pending.version, request)
        #: Encodes partitions that have only offsets and records. None: all are `PartitionData`, as
        #: in the first response of a session, from which the new session takes its offsets.
        begins_session = session is None and request.session_epoch == INITIAL_EPOCH
        lists_aborted = request.isolation_level == READ_COMMITTED
        encoder = None if begins_session else partition_encoder(pending, lists_aborted)
        self.encode_partition = encoder
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        #: The partitions that were read without an error.
        self.partitions: list[Partition] = []
        self.has_errors = False
        #: Whether to respond now, without waiting for data, as with an error.
        self.is_immediate = False
        #: Whether to respond within NOTIFIED_WITHIN_MS, even without data.
        self.is_soon = False
        #: The quota that throttles followers, if there is one, and the bytes read under it.
        self.throttle: ReplicationQuota | None = None
        self.throttled_bytes = 0
        #: Bytes to count for each topic when the response is sent.
        self.sent_bytes: list[tuple[TopicCounts, int]] = []
        #: Encoded partitions of the session: high watermark, log start, whether there are records.
        self.encoded: list[tuple[SessionPartition, int, int, bool]] = []
        self.response: FetchResponse | None = None

    def run(self) -> None:
        """Read all requested partitions, or the changed ones of the session."""
        if not (self.reader.is_follower and read_changed(self, self._node)):
            for _ in self.run_in_steps():
                pass

    def run_in_steps(self) -> Iterator[int]:
        """`run` in steps; yields their costs."""
        self._clear()
        quota = self._node.replica_manager.quotas.leader
        self.throttle = quota if self.reader.is_follower and quota.is_limited else None
        session = self.session
        responses: list[FetchableTopicResponse] = []
        yield from (
            self._read_topics(responses)
            if session is None
            else self._read_changed(session, responses)
        )
        self.response = FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=NO_SESSION if session is None else session.id,
            responses=responses,
        )
        if self.has_errors and self._pending.version >= LEADERS_SINCE:
            yield from add_current_leaders(self._node, self._pending, self.response)

    def _read_topics(self, responses: list[FetchableTopicResponse]) -> Iterator[int]:
        """Read the partitions that the request names."""
        for topic in self.request.topics:
            partitions = []
            work = 0
            for part in topic.partitions:
                data = self._read_partition(topic, part, None)
                work += CHECK_COST
                if data is not None:
                    partitions.append(data)
                    work += self._cost_of(data)
                if work > SLICE_COST:
                    yield work
                    work = 0
            yield work
            responses.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
            )

    def _read_changed(
        self, session: FetchSession, responses: list[FetchableTopicResponse]
    ) -> Iterator[int]:
        """Read the changed partitions of the session; those without anything new leave the list."""
        by_topic: dict[SessionTopic, list[PartitionData]] = {}
        session.new_bytes = 0
        work = 0
        for session_partition in list(session.changed):
            if session_partition.is_removed:
                continue
            data = self._read_partition(
                session_partition.topic, session_partition.request, session_partition
            )
            work += CHECK_COST
            if data is None:
                if not self._has_more(session_partition):
                    session.changed.pop(session_partition, None)
            else:
                by_topic.setdefault(session_partition.topic, []).append(data)
                work += self._cost_of(data)
            if work > SLICE_COST:
                yield work
                work = 0
        yield work
        responses += [
            FetchableTopicResponse(topic=it.topic, topic_id=it.topic_id, partitions=partitions)
            for it, partitions in by_topic.items()
        ]

    def _cost_of(self, data: PartitionData) -> int:
        return READ_COST if self.encode_partition is None and data.records else 0

    def _has_more(self, session_partition: SessionPartition) -> bool:
        """Whether a partition has records for which the response has no room."""
        partition, offset = session_partition.partition, session_partition.request.fetch_offset
        return partition is not None and offset < self.reader.readable_end(partition)

    def _read_partition(
        self,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> PartitionData | None:
        """Read one partition; None if its session has nothing new to report."""
        partition = self._find_partition(topic, part, session_partition)
        if isinstance(partition, int):
            return self._without_records(refused(part.partition, partition))
        partition.counts.fetches += 1
        response = self.reader.check_position(self._node, partition, part)
        if response is None:
            response = self._redirected_to_follower(partition, part)
        if response is not None:
            return self._without_records(response)
        self.partitions.append(partition)
        records = None
        is_throttled = self.throttle is not None and self.throttle.applies_to(partition)
        if part.fetch_offset < self.reader.readable_end(partition) and not (
            is_throttled and self._is_throttled(partition)
        ):
            try:
                records = self._locate(partition, part)
            except StorageError:
                partition.counts.failed_fetches += 1
                return self._without_records(refused(part.partition, ErrorCode.KAFKA_STORAGE_ERROR))
        if session_partition is not None:
            session_partition.written_bytes = partition.written_bytes
            if records is None and session_partition.has_sent(partition):
                return None
        if self.reader.is_follower:
            manager = self._node.replica_manager
            self.is_immediate |= follower_news.is_awaited(manager, partition, part)
            self.is_soon |= follower_news.is_for_consumers(manager, partition, session_partition)
        if records is not None:
            size = len(records)
            self.size += size
            self.throttled_bytes += size if is_throttled else 0
            self.sent_bytes.append((partition.counts, size))
        return self._with_records(partition, part, session_partition, records)

    def _with_records(
        self,
        partition: Partition,
        part: FetchPartition,
        session_partition: SessionPartition | None,
        records: Slice | bytes | None,
    ) -> PartitionData:
        high_watermark, start = partition.high_watermark, partition.start
        if self.encode_partition is not None:
            size = 0 if records is None else len(records)
            if session_partition is not None:
                self.encoded.append((session_partition, high_watermark, start, size > 0))
            return self.encode_partition(part.partition, high_watermark, start, records, size)
        return PartitionData(
            partition_index=part.partition,
            error_code=ErrorCode.NONE,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=start,
            aborted_transactions=() if self.request.isolation_level == READ_COMMITTED else None,
            records=b"" if records is None else records,  # type: ignore[arg-type]  # bytes still in a file
        )

    def _without_records(self, response: PartitionData) -> PartitionData:
        """Note a response that the reader gets at once: an error, a divergence, another replica."""
        self.is_immediate = True
        self.has_errors |= bool(response.error_code)
        return response

    def _redirected_to_follower(
        self, partition: Partition, part: FetchPartition
    ) -> PartitionData | None:
        node = self._node
        if (
            self.request.rack_id
            and self.reader.reads_followers
            and node.replica_manager.selects_by_rack
        ):
            return redirect_to_follower(node, self._pending, self.request, partition, part)
        return None

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether the quota throttles the follower: never one that is in sync (V10)."""
        quota = self._node.replica_manager.quotas.leader
        return self.reader.follower[0] not in partition.isr and quota.throttle_ms() > 0

    def _find_partition(
        self,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> Partition | int:
        """The partition, which from now on reports its changes to the session; or an error code."""
        if session_partition is not None and session_partition.partition is not None:
            return session_partition.partition
        partition = self._node.replica_manager.partition(
            topic.topic, topic.topic_id, part.partition, self._pending.version >= BY_ID_SINCE
        )
        if session_partition is not None and not isinstance(partition, int):
            session_partition.watch(partition)
        return partition

    def _locate(self, partition: Partition, part: FetchPartition) -> Slice | bytes | None:
        """The records that the response has room for; the first partition always has a batch."""
        room = min(
            part.partition_max_bytes,
            self.request.max_bytes - self.size,
            self._node.max_fetch_bytes - self.size,
        )
        if room <= 0 and self.size:
            return None
        end = self.reader.readable_end(partition)
        return self._node.logs.locate(partition.log, part.fetch_offset, end, room, self.size == 0)
