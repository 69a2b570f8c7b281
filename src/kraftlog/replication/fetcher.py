"""`Fetcher`: fetches from one leader for all partitions that this broker follows there.

One request is in flight at a time, in an incremental fetch session: a request has only the
partitions whose position has changed, and the leader responds when it has something new. The next
request leaves when all batches of the last response are written.

A partition for which the leader returns an error, or whose log can't be written, is removed from
the session for a backoff, which grows from attempt to attempt; the others go on.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.fetch import FetchResponse, PartitionData

    Key = tuple[Uuid, int]

NO_SESSION, FIRST_EPOCH, MAX_EPOCH = 0, 0, 0x7FFFFFFF
#: The most bytes to fetch of one partition while the response has room for them.
MAX_PARTITION_BYTES = 4 << 20
#: The first backoff after a refusal or a lost connection; it doubles up to the configured one.
FIRST_BACKOFF_MS = 10


class FetchConfig(Value):
    """The settings of the fetchers of this broker."""

    broker_id: int
    backoff_ms: int = 1000
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    #: Fetch more than `partition_max_bytes` of a partition if the response has room for it.
    fills_responses: bool = False
    min_bytes: int = 1
    max_wait_ms: int = 500
    timeout_ms: int = 30_000
    fetchers: int = 1


def fetch_config_of(settings: BrokerConfig) -> FetchConfig:
    return FetchConfig(
        broker_id=settings.node_id,
        backoff_ms=settings.replica_fetch_backoff_ms,
        max_bytes=settings.replica_fetch_response_max_bytes,
        partition_max_bytes=settings.replica_fetch_max_bytes,
        fills_responses=not settings.is_given("replica.fetch.max.bytes"),
        min_bytes=settings.replica_fetch_min_bytes,
        max_wait_ms=settings.replica_fetch_wait_max_ms,
        timeout_ms=settings.replica_socket_timeout_ms,
        fetchers=settings.num_replica_fetchers,
    )


class FollowedPartition:
    """A followed partition, as its fetcher sees it."""

    __slots__ = ("backoff_ms", "held_records", "key", "last_problem", "partition", "sent_position")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key = partition.topic_id, partition.index
        #: The position last sent to the leader, as (offset, leader epoch); None: not sent yet.
        self.sent_position: tuple[int, int] | None = None
        self.backoff_ms = 0
        #: Fetched records to append once the log is truncated.
        self.held_records = b""
        #: The last problem that was logged, to log it only once.
        self.last_problem = ""


class Fetcher:
    """The fetches from one leader, in one session."""

    def __init__(self, leader_id: int, config: FetchConfig, node: ReplicatingNode) -> None:
        self.leader_id = leader_id
        self._config = config
        self._node = node
        self.followed: dict[Key, FollowedPartition] = {}
        self._session_id, self._session_epoch = NO_SESSION, FIRST_EPOCH
        #: The broker epoch of the session.
        self._session_broker_epoch = -1
        #: The partitions that the next request has, and those that it removes from the session.
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}
        #: The delayed partitions, and when each is due; and a heap of these times, in which
        #: outdated ones may be left.
        self._delayed: dict[Key, int] = {}
        self._delays: list[tuple[int, Key]] = []
        #: The partitions that are not fetched until their logs are truncated.
        self._truncating: set[Key] = set()
        #: The partitions with fetched batches that are not written yet.
        self._unwritten: dict[Partition, None] = {}
        #: The number of the request in flight.
        self.in_flight: int | None = None
        #: No request leaves before this.
        self._due_ms = 0
        self._backoff_ms = 0
        #: Whether the leader has a new process since the last connection.
        self._must_reconnect = False

    # Partitions ----------------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        followed = FollowedPartition(partition)
        self.remove(followed.key)
        self.followed[followed.key] = followed
        self._changed[followed.key] = None
        if partition.unwritten:  # appended by another leader's fetcher, or as a leader
            self._unwritten[partition] = None

    def remove(self, key: Key) -> None:
        followed = self.followed.pop(key, None)
        if followed is not None:
            self._remove_from_session(followed)
            self._delayed.pop(key, None)
            self._truncating.discard(key)
            # Its fetched batches may never be written, if the log is removed.
            self._unwritten.pop(followed.partition, None)

    def _remove_from_session(self, followed: FollowedPartition) -> None:
        """Remove a partition from the session with the next request."""
        self._changed.pop(followed.key, None)
        if followed.sent_position is not None:
            followed.sent_position = None
            self._forgotten[followed.key] = None

    def delay(self, followed: FollowedPartition, now: Now) -> None:
        """Remove a partition from the session for its next backoff."""
        followed.backoff_ms = self._next_backoff_ms(followed.backoff_ms)
        self._remove_from_session(followed)
        self._truncating.discard(followed.key)
        self._delay_until(now.monotonic_ms + followed.backoff_ms, followed.key)

    def _delay_until(self, due_ms: int, key: Key) -> None:
        if self._delayed.get(key) != due_ms:
            self._delayed[key] = due_ms
            heappush(self._delays, (due_ms, key))

    @property
    def _next_delayed_ms(self) -> int | None:
        """When the first delayed partition is due."""
        delays = self._delays
        while delays and self._delayed.get(delays[0][1]) != delays[0][0]:
            heappop(delays)
        return delays[0][0] if delays else None

    def throttle(self, throttle_ms: Callable[[Partition], int], now: Now) -> None:
        """Delay partitions for as long as the quota throttles them."""
        for key in list(self._changed):
            followed = self.followed[key]
            delay_ms = throttle_ms(followed.partition)
            if delay_ms:
                self._remove_from_session(followed)
                self._delay_until(now.monotonic_ms + delay_ms, key)

    def _next_backoff_ms(self, backoff_ms: int) -> int:
        return min(max(2 * backoff_ms, FIRST_BACKOFF_MS), self._config.backoff_ms)

    def pause(self, followed: FollowedPartition) -> None:
        """Remove a partition from the session until its log is truncated."""
        self._remove_from_session(followed)
        self._truncating.add(followed.key)

    def resume(self, key: Key) -> None:
        """Fetch a partition again, because its log is truncated now."""
        if key in self._truncating:
            self._truncating.discard(key)
            self._changed[key] = None

    def fetch_again(self, followed: FollowedPartition) -> None:
        """Send a partition's position with the next request, even if it has not moved."""
        self._changed[followed.key] = None

    def start_moved(self, key: Key) -> None:
        """Send a partition's log start with the next request, unless it is not in the session."""
        if key not in self._delayed and key not in self._truncating:
            self._changed[key] = None

    # Time ----------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        """When a delayed partition or the next request is due."""
        due_ms = self._next_delayed_ms
        if self._due_ms and self._has_request:
            due_ms = self._due_ms if due_ms is None else min(due_ms, self._due_ms)
        return due_ms

    def poll(self, now: Now) -> None:
        """Fetch the delayed partitions that are due."""
        while (due_ms := self._next_delayed_ms) is not None and due_ms <= now.monotonic_ms:
            _, key = heappop(self._delays)
            del self._delayed[key]
            self._changed[key] = None

    def can_send(self, now: Now) -> bool:
        """Whether a request may leave now."""
        return self._due_ms <= now.monotonic_ms and self._has_request

    @property
    def _has_request(self) -> bool:
        """Whether there is something to fetch, no request in flight and no unwritten batch."""
        if self.in_flight is not None:
            return False
        if self._unwritten:
            if any(partition.unwritten for partition in self._unwritten):
                return False
            self._unwritten.clear()
        return len(self.followed) > len(self._delayed) + len(self._truncating)

    # Requests ------------------------------------------------------------------------------------

    def request(self) -> FetchRequest:
        """Build the next request, and clear the session changes that it carries."""
        broker_epoch = self._node.broker_epoch()
        if broker_epoch != self._session_broker_epoch:  # a session belongs to one registration
            self._session_broker_epoch, self._session_epoch = broker_epoch, FIRST_EPOCH
        if self._session_epoch == FIRST_EPOCH:
            self._begin_session()
        topics: dict[Uuid, list[FetchPartition]] = {}
        max_bytes = self._partition_bytes(len(self._changed))
        for key in self._changed:
            self._forgotten.pop(key, None)
            topics.setdefault(key[0], []).append(self._position(self.followed[key], max_bytes))
        forgotten: dict[Uuid, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        self._changed.clear()
        self._forgotten.clear()
        config = self._config
        return FetchRequest(
            replica_state=ReplicaState(replica_id=config.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=config.max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=parts)
                for topic_id, parts in topics.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=parts)
                for topic_id, parts in forgotten.items()
            ],
        )

    def _begin_session(self) -> None:
        """Send all partitions with the next request, because a new session has none."""
        for key, followed in self.followed.items():
            followed.sent_position = None
            if key not in self._delayed and key not in self._truncating:
                self._changed[key] = None
        self._forgotten.clear()

    def _partition_bytes(self, partitions: int) -> int:
        """The max bytes of each partition, in a request with this number of partitions.

        A follower that lags in few partitions then needs fewer requests.
        """
        config = self._config
        room = config.max_bytes // partitions if config.fills_responses and partitions else 0
        return max(config.partition_max_bytes, min(room, MAX_PARTITION_BYTES))

    def _position(self, followed: FollowedPartition, max_bytes: int) -> FetchPartition:
        partition = followed.partition
        followed.sent_position = partition.end, partition.leader_epoch
        return FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=partition.end,
            last_fetched_epoch=self._node.logs.latest_epoch(partition.log),
            log_start_offset=partition.start,
            partition_max_bytes=max_bytes,
        )

    # Responses -----------------------------------------------------------------------------------

    def failed(self, now: Now) -> None:
        """The request in flight gets no response: begin a new session after a backoff."""
        self.in_flight = None
        self._session_epoch = FIRST_EPOCH
        self._backoff_ms = self._next_backoff_ms(self._backoff_ms)
        self._due_ms = now.monotonic_ms + self._backoff_ms

    def leader_is_down(self, now: Now) -> None:
        """The leader's process has ended: back off for the longest time or until `leader_moved`."""
        self._backoff_ms = self._config.backoff_ms
        self._due_ms = now.monotonic_ms + self._backoff_ms

    def leader_moved(self, *, is_new_process: bool) -> None:
        """The leader's broker has another address or process: connect without waiting."""
        self._due_ms = self._backoff_ms = 0
        self._must_reconnect |= is_new_process

    @property
    def is_needed(self) -> bool:
        """Whether it has partitions, a request in flight, or a connection to replace."""
        return bool(self.followed) or self.in_flight is not None or self._must_reconnect

    def take_reconnect(self) -> bool:
        """Whether the next request needs a new connection; True once for each change."""
        must_reconnect, self._must_reconnect = self._must_reconnect, False
        return must_reconnect

    def take_response(
        self, response: FetchResponse, now: Now
    ) -> Iterator[tuple[FollowedPartition, PartitionData]]:
        """Update the session; yield the partitions that are still at the requested position."""
        self.in_flight = None
        if response.error_code:
            if response.error_code in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            ):
                self._session_id, self._session_epoch = NO_SESSION, FIRST_EPOCH
            else:
                self.failed(now)
            return
        self._due_ms = self._backoff_ms = 0
        self._session_id = response.session_id
        if response.session_id == NO_SESSION:
            self._session_epoch = FIRST_EPOCH
        else:
            self._session_epoch = self._session_epoch % MAX_EPOCH + 1
        for topic in response.responses:
            for data in topic.partitions:
                followed = self.followed.get((topic.topic_id, data.partition_index))
                if followed is None:
                    continue
                partition = followed.partition
                if followed.sent_position == (partition.end, partition.leader_epoch):
                    yield followed, data

    def appended(self, followed: FollowedPartition) -> None:
        """Fetched batches of a partition were appended in this turn: the host writes them next."""
        followed.last_problem = ""
        self._unwritten[followed.partition] = None
        self._changed[followed.key] = None
