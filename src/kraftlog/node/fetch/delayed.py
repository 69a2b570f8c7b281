"""Fetch of topics: batches as stored, sent once `min_bytes` are there or after `max_wait_ms`.

Consumers see what is below the high watermark, which without transactions is the last stable offset
too. They may read from a follower as well, up to its own high watermark (KIP-392). Followers read
up to the end of the leader's log; a follower's fetch offset tells the leader what it has.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.node.fetch import follower_news
from kraftlog.node.fetch.encoded_partitions import partition_encoder
from kraftlog.node.fetch.follower_read import read_changed
from kraftlog.node.fetch.nearest_replica import redirect_to_follower
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kraftlog.node.leaders import add_current_leaders
from kraftlog.replication.leader_epochs import end_of_epoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kraftlog.node.fetch_sessions import FetchSession, SessionPartition, SessionTopic
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Slice
    from kraftlog.replication.counts import TopicCounts
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.quotas import ReplicationQuota
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

#: The first version whose responses can name a diverging epoch.
DIVERGING_SINCE = 12
#: The first version that names topics by id.
BY_ID_SINCE = 13
#: The first version with a rack: since then consumers may read from followers.
RACKS_SINCE = 11
#: The first version whose errors name the leader.
LEADERS_SINCE = 16
#: A fetch from more partitions is served in slices.
FEW_PARTITIONS = 100
#: Costs in microseconds: checking a partition, and locating and reading its records. A slice ends
#: after `SLICE_COST`.
CHECK_COST = 3
READ_COST = 40
SLICE_COST = 200
_UNKNOWN_TOPIC_ERRORS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
#: The isolation level whose responses list aborted transactions.
READ_COMMITTED = 1


def handle(
    node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now
) -> Iterator[int] | None:
    session: FetchSession | None = None
    if request.session_epoch != FINAL_EPOCH or request.session_id != NO_SESSION:
        resumed = node.fetch_sessions.resume(request, pending.version, now)
        if isinstance(resumed, int):
            pending.respond(FetchResponse(error_code=resumed, session_id=NO_SESSION, responses=()))
            return None
        session = resumed
    if _partition_count(request, session) > FEW_PARTITIONS:
        from kraftlog.node.fetch.large import LargeFetch

        return LargeFetch(pending, request, session).serve(node, now)
    DelayedFetch(pending, request, session).respond_or_wait(node, now)
    return None


def _partition_count(request: FetchRequest, session: FetchSession | None) -> int:
    """The number of partitions that a request reads."""
    if session is not None:
        return len(session.changed)
    if len(request.topics) == 1:
        return len(request.topics[0].partitions)
    return sum([len(topic.partitions) for topic in request.topics])


class DelayedFetch:
    """A Fetch request: what it has read so far, and whether the response is sent."""

    __slots__ = (
        "deadline_ms",
        "done",
        "encode_partition",
        "encoded",
        "epoch",
        "follower",
        "has_errors",
        "is_by_follower",
        "is_immediate",
        "is_soon",
        "node",
        "partitions",
        "pending",
        "pending_positions",
        "reads_followers",
        "request",
        "response",
        "sent_bytes",
        "session",
        "size",
        "throttle",
        "throttled_bytes",
        "written_at_read",
    )

    node: ServingNode  # both are set while it waits
    deadline_ms: int

    def __init__(
        self, pending: PendingResponse, request: FetchRequest, session: FetchSession | None
    ) -> None:
        self.pending = pending
        self.request = request
        state = request.replica_state
        #: The broker that fetches as a follower, and its epoch; -1 for a consumer.
        self.follower = max(request.replica_id, state.replica_id), state.replica_epoch
        self.is_by_follower = self.follower[0] >= 0
        self.reads_followers = pending.version >= RACKS_SINCE and not self.is_by_follower
        #: The `id()`s of a follower's `FetchPartition`s whose positions are not noted yet.
        self.pending_positions: set[int] = set()
        if self.is_by_follower:
            self.pending_positions.update(
                [id(part) for it in request.topics for part in it.partitions]
            )
        #: The session that the request continues; a new session is created with the response.
        self.session = session
        self.epoch = FINAL_EPOCH if session is None else session.epoch
        self.done = False
        self.has_errors = False
        #: Whether to respond now, without waiting for data, as with an error.
        self.is_immediate = False
        #: Whether to respond within NOTIFIED_WITHIN_MS, even without data.
        self.is_soon = False
        self.size = 0
        self.partitions: list[Partition] = []
        #: Bytes written to the partitions as of the last read; None: not all of them are committed.
        self.written_at_read: int | None = None
        #: The quota that throttles followers, if there is one, and the bytes read under it.
        self.throttle: ReplicationQuota | None = None
        self.throttled_bytes = 0
        #: Bytes to count for each topic when the response is sent.
        self.sent_bytes: list[tuple[TopicCounts, int]] = []
        self.response: FetchResponse | None = None
        #: Encodes partitions that have only offsets and records. None: all are `PartitionData`, as
        #: in the first response of a session, from which the new session takes its offsets.
        begins_session = session is None and request.session_epoch == INITIAL_EPOCH
        lists_aborted = request.isolation_level == READ_COMMITTED
        encoder = None if begins_session else partition_encoder(pending, lists_aborted)
        self.encode_partition = encoder
        #: Encoded partitions of the session: high watermark, log start, whether there are records.
        self.encoded: list[tuple[SessionPartition, int, int, bool]] = []

    @property
    def is_enough(self) -> bool:
        """Whether to respond now."""
        return (
            self.size >= self.request.min_bytes
            or self.is_immediate
            or self.request.max_wait_ms <= 0
            or not (self.partitions or self.session)
        )

    def max_wait_ms(self, node: ServingNode) -> int:
        if not self.is_by_follower:
            return self.request.max_wait_ms
        limit = self.request.max_wait_ms
        if self.is_soon:
            limit = min(limit, follower_news.NOTIFIED_WITHIN_MS)
        return node.replica_manager.in_sync_replicas.max_wait_ms(self.follower[0], limit)

    def respond_or_wait(self, node: ServingNode, now: Now) -> None:
        """Respond, now or later."""
        self.read(node)
        if self.is_enough:
            self.respond(node, now)
        else:
            self.park(node, now.monotonic_ms + self.max_wait_ms(node))

    def read(self, node: ServingNode) -> None:
        """Read from scratch: all requested partitions, or the changed ones of the session."""
        if not (self.is_by_follower and read_changed(self, node)):
            for _ in self.read_in_steps(node):
                pass

    def read_in_steps(self, node: ServingNode) -> Iterator[int]:
        """`read` in steps; yields their costs."""
        self.size = self.throttled_bytes = 0
        self.has_errors = self.is_immediate = self.is_soon = False
        self.partitions = []
        self.sent_bytes = []
        self.encoded = []
        quota = node.replica_manager.quotas.leader
        self.throttle = quota if self.is_by_follower and quota.is_limited else None
        session = self.session
        responses: list[FetchableTopicResponse] = []
        yield from (
            self._read_topics(node, responses)
            if session is None
            else self._read_changed(node, session, responses)
        )
        self.response = FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=NO_SESSION if session is None else session.id,
            responses=responses,
        )
        if self.has_errors and self.pending.version >= LEADERS_SINCE:
            yield from add_current_leaders(node, self.pending, self.response)

    def _read_topics(
        self, node: ServingNode, responses: list[FetchableTopicResponse]
    ) -> Iterator[int]:
        """Read the partitions that the request names."""
        for topic in self.request.topics:
            partitions = []
            work = 0
            for part in topic.partitions:
                data = self._read_partition(node, topic, part, None)
                work += CHECK_COST
                if data is not None:
                    partitions.append(data)
                    work += READ_COST if self.encode_partition is None and data.records else 0
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
        self, node: ServingNode, session: FetchSession, responses: list[FetchableTopicResponse]
    ) -> Iterator[int]:
        """Read the changed partitions of the session; those without anything new leave the list."""
        by_topic: dict[SessionTopic, list[PartitionData]] = {}
        session.new_bytes = 0
        work = 0
        for session_partition in list(session.changed):
            if session_partition.is_removed:
                continue
            data = self._read_partition(
                node, session_partition.topic, session_partition.request, session_partition
            )
            work += CHECK_COST
            if data is None:
                if not self._has_more(session_partition):
                    session.changed.pop(session_partition, None)
            else:
                by_topic.setdefault(session_partition.topic, []).append(data)
                work += READ_COST if self.encode_partition is None and data.records else 0
            if work > SLICE_COST:
                yield work
                work = 0
        yield work
        responses += [
            FetchableTopicResponse(topic=it.topic, topic_id=it.topic_id, partitions=partitions)
            for it, partitions in by_topic.items()
        ]

    def _has_more(self, session_partition: SessionPartition) -> bool:
        """Whether a partition has records for which the response has no room."""
        partition, offset = session_partition.partition, session_partition.request.fetch_offset
        return partition is not None and offset < self._limit(partition)

    def _read_partition(
        self,
        node: ServingNode,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> PartitionData | None:
        """Read one partition; None if its session has nothing new to report."""
        partition = self._find_partition(node, topic, part, session_partition)
        if isinstance(partition, int):
            return self._refused(part.partition, partition)
        partition.counts.fetches += 1
        response = self._check_position(node, partition, part)
        if (
            response is None
            and self.request.rack_id
            and self.reads_followers
            and node.replica_manager.selects_by_rack
        ):
            response = redirect_to_follower(node, self.pending, self.request, partition, part)
            self.is_immediate |= response is not None
        if response is not None:
            return response
        self.partitions.append(partition)
        records, size = None, 0
        is_throttled = self.throttle is not None and self.throttle.applies_to(partition)
        if part.fetch_offset < self._limit(partition) and not (
            is_throttled and self._is_throttled(node, partition)
        ):
            try:
                records = self._locate(node, partition, part)
            except StorageError:
                partition.counts.failed_fetches += 1
                return self._refused(part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if session_partition is not None:
            session_partition.written_bytes = partition.written_bytes
            if records is None and session_partition.has_sent(partition):
                return None
        if self.is_by_follower:
            manager = node.replica_manager
            self.is_immediate |= follower_news.is_awaited(manager, partition, part)
            self.is_soon |= follower_news.is_for_consumers(manager, partition, session_partition)
        if records is not None:
            size = len(records)
            self.size += size
            self.throttled_bytes += size if is_throttled else 0
            self.sent_bytes.append((partition.counts, size))
        high_watermark, start = partition.high_watermark, partition.start
        if self.encode_partition is not None:
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

    def _is_throttled(self, node: ServingNode, partition: Partition) -> bool:
        """Whether the quota throttles the follower: never one that is in sync (V10)."""
        quota = node.replica_manager.quotas.leader
        return self.follower[0] not in partition.isr and quota.throttle_ms() > 0

    def _check_position(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> PartitionData | None:
        """Check the offset and epoch of a fetch, and note them as a follower's position.

        Returns a response without records if there is an error or a diverging epoch.

        A follower has everything below the offset that its request names. An offset that only the
        session has is that of an earlier request, and proves nothing new.
        """
        is_current = partition.online and part.current_leader_epoch == partition.leader_epoch
        code = ErrorCode.NONE if is_current else self._error_code(partition, part)
        if not code:
            if part.last_fetched_epoch >= 0 and part.fetch_offset >= partition.start:
                diverging = self._diverging_epoch(node, partition, part)
                if diverging is not None:
                    return diverging
            if not partition.start <= part.fetch_offset <= partition.end:
                return self._out_of_range(node, partition, part)
            if id(part) in self.pending_positions and part.fetch_offset <= partition.written_end:
                self.pending_positions.remove(id(part))
                code = node.replica_manager.in_sync_replicas.fetched(
                    partition, *self.follower, part.fetch_offset, part.log_start_offset
                )
        if code:
            partition.counts.failed_fetches += 1
            return self._refused(part.partition, code)
        return None

    def _error_code(self, partition: Partition, part: FetchPartition) -> int:
        epoch = part.current_leader_epoch
        return partition.error_for_request(epoch, reads_followers=self.reads_followers)

    def _find_partition(
        self,
        node: ServingNode,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> Partition | int:
        """The partition, which from now on reports its changes to the session; or an error code."""
        if session_partition is not None and session_partition.partition is not None:
            return session_partition.partition
        partition = node.replica_manager.partition(
            topic.topic, topic.topic_id, part.partition, self.pending.version >= BY_ID_SINCE
        )
        if session_partition is not None and not isinstance(partition, int):
            session_partition.watch(partition)
        return partition

    def _diverging_epoch(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> PartitionData | None:
        """The diverging epoch, if the last fetched epoch and offset do not match this log."""
        if part.last_fetched_epoch == partition.leader_epoch and (
            part.fetch_offset <= partition.written_end
        ):
            return None  # the usual case: that epoch has not ended
        epoch, end = end_of_epoch(node.logs, partition, part.last_fetched_epoch)
        if end < 0:
            return self._refused(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch == part.last_fetched_epoch and part.fetch_offset <= end:
            return None
        self.is_immediate = True
        return PartitionData(
            partition_index=part.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=partition.start,
            diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
            aborted_transactions=None,
            records=b"",
        )

    def _out_of_range(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> PartitionData:
        """The error for an offset out of range; a follower also gets the log start and end."""
        refused = self._refused(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.is_by_follower and self.pending.version >= DIVERGING_SINCE:
            refused.log_start_offset = partition.start
            refused.diverging_epoch = EpochEndOffset(
                epoch=node.logs.latest_epoch(partition.log), end_offset=partition.written_end
            )
        return refused

    def _limit(self, partition: Partition) -> int:
        """The end of what is readable: followers read above the high watermark."""
        return partition.written_end if self.is_by_follower else partition.high_watermark

    def _locate(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> Slice | bytes | None:
        room = min(
            part.partition_max_bytes,
            self.request.max_bytes - self.size,
            node.max_fetch_bytes - self.size,
        )
        if room <= 0 and self.size:
            return None
        return node.logs.locate(
            partition.log, part.fetch_offset, self._limit(partition), room, self.size == 0
        )

    def _refused(self, index: int, code: int) -> PartitionData:
        self.has_errors = self.is_immediate = True
        return PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            # As Kafka does: empty for unknown partitions, null for other errors.
            aborted_transactions=() if code in _UNKNOWN_TOPIC_ERRORS else None,
            records=b"",
        )

    def park(self, node: ServingNode, deadline_ms: int) -> None:
        """Wait for data until the deadline."""
        self.node, self.deadline_ms = node, deadline_ms
        node.wait(self, deadline_ms)
        self.pending.waiter = self
        if self.session is not None:
            self.session.delayed = self
        else:
            for partition in self.partitions:
                partition.watch(self, by_follower=self.is_by_follower)
            self._note_written()
        if self.is_by_follower:
            node.replica_manager.delayed_fetches.add(self.follower[0], self)

    def _note_written(self) -> None:
        """Note the bytes written so far; the next read finds at most the bytes written since."""
        watched = self.partitions
        all_committed = all(self._limit(it) == it.written_end for it in watched)
        self.written_at_read = self._written_bytes() if all_committed else None

    def _has_too_few_bytes(self) -> bool:
        """Whether the bytes written since the last read are certainly too few.

        Saves the read if many fetches wait for one partition: each write checks all of them.
        """
        if self.session is not None:
            return self.size + self.session.new_bytes < self.request.min_bytes
        if self.written_at_read is None:
            return False
        return self.size + self._written_bytes() - self.written_at_read < self.request.min_bytes

    def _written_bytes(self) -> int:
        watched = self.partitions
        if len(watched) == 1:
            return watched[0].written_bytes
        return sum([partition.written_bytes for partition in watched])

    def try_complete(self, partition: Partition) -> None:
        """A watched partition has something new to read, or no longer serves requests."""
        if not (partition.online and self._has_too_few_bytes()):
            self._read_and_try_complete()

    def role_changed(self, _: Partition) -> None:
        self._read_and_try_complete()

    def _read_and_try_complete(self) -> None:
        node, watched = self.node, self.partitions
        self.read(node)
        if self.size >= self.request.min_bytes or self.is_immediate:
            self._stop_watching(watched)
            self.respond(node, node.now)
        else:
            self.partitions = watched
            if self.session is None:
                self._note_written()
            if self.is_soon:
                self._wait_at_most(follower_news.NOTIFIED_WITHIN_MS)

    def _wait_at_most(self, wait_ms: int) -> None:
        until_ms = self.node.now.monotonic_ms + wait_ms
        if until_ms < self.deadline_ms:
            self.deadline_ms = until_ms
            self.node.wait(self, until_ms)

    def partitions_changed(self, partitions: Collection[Partition]) -> None:
        """Partitions of the session have changed, all in one turn."""
        if not (all(it.online for it in partitions) and self._has_too_few_bytes()):
            if self._has_much_to_read:
                self._serve_in_slices(self.deadline_ms)
            else:
                self._read_and_try_complete()

    def expire(self, now: Now) -> None:
        if self.done:
            return
        if self._has_much_to_read:
            self._serve_in_slices(now.monotonic_ms)
            return
        watched = self.partitions
        self.read(self.node)
        self._stop_watching(watched)
        self.respond(self.node, now)

    @property
    def _has_much_to_read(self) -> bool:
        """Whether too many partitions of the session have changed to read them in one slice."""
        return self.session is not None and len(self.session.changed) > FEW_PARTITIONS

    def _serve_in_slices(self, deadline_ms: int) -> None:
        """Stop waiting, and serve the request in slices instead, from scratch."""
        from kraftlog.node.fetch.large import LargeFetch

        self.cancel()
        large = LargeFetch(self.pending, self.request, self.session)
        large.epoch, large.pending_positions = self.epoch, self.pending_positions
        self.node.sliced.run(self.pending, large.serve_until(self.node, deadline_ms), self.request)

    def respond(self, node: ServingNode, now: Now) -> None:
        self.done = True
        session = self.session
        if session is None and self.request.session_epoch == INITIAL_EPOCH:
            session = node.fetch_sessions.open(self.request, self.pending.version, now)
        response = self._response_in(session)
        if session is not None:
            session.sent(response.responses)
            session.sent_encoded(self.encoded)
        self._count(node)
        self.pending.respond(self.response)

    def _response_in(self, session: FetchSession | None) -> FetchResponse:
        """The response, or an error if the session has since served another request."""
        assert self.response is not None, "the partitions are read"
        if self.session is not None and self.session.epoch != self.epoch:
            self.response = FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=NO_SESSION,
                responses=(),
            )
        elif session is not None:
            self.response.session_id = session.id
        return self.response

    def _count(self, node: ServingNode) -> None:
        assert self.response is not None, "the partitions are read"
        if not self.response.error_code:
            if self.throttled_bytes:
                node.replica_manager.quotas.leader.record(self.throttled_bytes)
            for counts, size in self.sent_bytes:
                counts.bytes_out += size

    def cancel(self) -> None:
        self.done = True
        self._stop_watching(self.partitions)

    def _stop_watching(self, partitions: list[Partition]) -> None:
        if self.is_by_follower:
            self.node.replica_manager.delayed_fetches.remove(self.follower[0], self)
        if self.session is not None:
            if self.session.delayed is self:
                self.session.delayed = None
            return
        for partition in partitions:
            partition.unwatch(self)
