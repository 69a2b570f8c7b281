"""Fetch sessions (KIP-227): requests and responses name only the partitions that changed.

Each request has a session epoch. If the broker expects another one, it returns an error, and the
client starts a new session. The number of sessions is limited; a client without one gets full
responses.

Partitions report their changes to the sessions that read them. So a session knows the partitions
that may have something new for its client, and a request costs only as much as has changed.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from typing import Protocol

    from kraftlog.controller.placement import Rng
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.fetch import (
        FetchableTopicResponse,
        FetchPartition,
        FetchRequest,
        FetchTopic,
        PartitionData,
    )

    class WaitingFetch(Protocol):
        """A delayed fetch, as its session sees it."""

        def session_ended(self) -> None: ...


NO_SESSION = 0
#: The session epoch of a request that starts a session.
INITIAL_EPOCH = 0
#: The session epoch of a request that ends its session, or wants none.
FINAL_EPOCH = -1
_MAX_EPOCH = 0x7FFFFFFF
#: The first version of Fetch that names topics by id.
BY_ID_SINCE = 13
#: Idle time, or minimum age, after which a session may be evicted (as in Kafka).
EVICTION_MS = 120_000
#: Instead of an offset that the client does not know.
UNKNOWN = -1
#: More bytes than any request waits for.
MANY_BYTES = 1 << 62
#: The types of the partitions of a response that are encoded already.
_ENCODED_TYPES: frozenset[type] = frozenset((bytes, tuple))
#: Partitions per slice, if the request is served in slices.
PARTITIONS_PER_SLICE = 200


class SessionPartition:
    """A partition of a session: its latest request, and the offsets in its last response."""

    __slots__ = (
        "high_watermark",
        "is_removed",
        "partition",
        "request",
        "session",
        "start",
        "topic",
        "written_bytes",
    )

    def __init__(self, session: FetchSession, topic: SessionTopic, request: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.request = request
        self.high_watermark = UNKNOWN
        self.start = UNKNOWN
        #: The partition that reports its changes, while it is on this broker.
        self.partition: Partition | None = None
        self.is_removed = False
        #: The partition's `written_bytes` as of its last read or reported change.
        self.written_bytes = 0

    @property
    def is_obsolete(self) -> bool:
        """Whether the session has ended or no longer has the partition."""
        return self.is_removed or self.session.is_closed

    def watch(self, partition: Partition) -> None:
        """Have a partition report its changes."""
        self.partition = partition
        partition.add_session(self, by_follower=self.session.is_follower)

    def written(self) -> object | None:
        """The partition has new bytes; returns the session's delayed fetch, if any."""
        if self.is_obsolete:
            return None
        session, partition = self.session, self.partition
        session.changed[self] = None
        if partition is None or not partition.commits_at_once:
            session.new_bytes = MANY_BYTES  # `written_bytes` does not show what was committed
        else:
            session.new_bytes += partition.written_bytes - self.written_bytes
            self.written_bytes = partition.written_bytes
        return session.delayed

    def changed(self) -> object | None:
        """Offsets, the role or the leader epoch have changed: the next read needs no new bytes."""
        delayed = self.written()
        self.session.new_bytes = MANY_BYTES
        return delayed

    def has_sent(self, partition: Partition) -> bool:
        """Whether the last response had the partition's current high watermark and log start."""
        return self.high_watermark == partition.high_watermark and self.start == partition.start

    def partition_removed(self) -> object | None:
        """The partition was removed from this broker."""
        self.partition = None
        return self.changed()

    def requested(self, request: FetchPartition) -> None:
        """A request names the partition again.

        If it has the same offset, the client has ignored the last response, as a follower does if
        the leader epoch has changed.
        """
        if request.fetch_offset == self.request.fetch_offset:
            self.high_watermark = UNKNOWN
        self.request = request

    def sent(self, data: PartitionData) -> None:
        """Note the offsets in a response.

        The client ignores them after an error or a divergence, so the next response includes the
        partition again.
        """
        is_unused = data.error_code or data.diverging_epoch.end_offset >= 0
        self.high_watermark = UNKNOWN if is_unused else data.high_watermark
        self.start = data.log_start_offset


class SessionTopic:
    """The partitions of one topic in a session."""

    __slots__ = ("by_index", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: Uuid) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.by_index: dict[int, SessionPartition] = {}


class FetchSession:
    """The session of one client. `epoch` is the epoch of its next request."""

    __slots__ = (
        "allowed_to",
        "by_id",
        "changed",
        "created_ms",
        "delayed",
        "epoch",
        "follower_id",
        "id",
        "is_closed",
        "new_bytes",
        "size",
        "topics",
        "used_ms",
    )

    def __init__(self, session_id: int, *, by_id: bool, follower_id: int, now: Now) -> None:
        self.id = session_id
        self.by_id = by_id
        #: The broker that fetches as a follower; -1 for a consumer.
        self.follower_id = follower_id
        self.epoch = 1
        self.created_ms = self.used_ms = now.monotonic_ms
        self.topics: dict[str | Uuid, SessionTopic] = {}
        #: The number of partitions.
        self.size = 0
        #: The partitions that may have something new, in the order in which they are served.
        self.changed: dict[SessionPartition, None] = {}
        #: The delayed fetch, and an upper bound of the bytes written since its last read.
        self.delayed: WaitingFetch | None = None
        self.new_bytes = 0
        self.is_closed = False
        #: With an authorizer: whose it is (principal and host), and the generation of the ACLs by
        #: which the client may read all of it.
        self.allowed_to: tuple[tuple[str, str], int] | None = None

    @property
    def is_follower(self) -> bool:
        return self.follower_id >= 0

    def shares_partition(self, other: FetchSession) -> bool:
        """Whether another session has a partition of this one."""
        for key, topic in self.topics.items():
            theirs = other.topics.get(key)
            if theirs is not None and not theirs.by_index.keys().isdisjoint(topic.by_index):
                return True
        return False

    def _key(self, topic: str, topic_id: Uuid) -> str | Uuid:
        return topic_id if self.by_id else topic

    def has_only(self, topic: str, topic_id: Uuid, index: int) -> bool:
        """Whether this is the session's only partition."""
        if len(self.topics) != 1:
            return False
        only = self.topics.get(self._key(topic, topic_id))
        return only is not None and len(only.by_index) == 1 and index in only.by_index

    def find(self, topic: str, topic_id: Uuid, index: int) -> SessionPartition | None:
        session_topic = self.topics.get(self._key(topic, topic_id))
        return None if session_topic is None else session_topic.by_index.get(index)

    def update(self, topics: Iterable[FetchTopic]) -> None:
        """Add or update the partitions of a request."""
        for _ in self.update_in_steps(topics):
            pass

    def update_in_steps(self, topics: Iterable[FetchTopic]) -> Iterator[int]:
        """`update` in steps; yields their costs."""
        for topic in topics:
            key = self._key(topic.topic, topic.topic_id)
            session_topic = self.topics.get(key)
            if session_topic is None:
                session_topic = SessionTopic(topic.topic, topic.topic_id)
                self.topics[key] = session_topic
            for number, part in enumerate(topic.partitions, 1):
                partition = session_topic.by_index.get(part.partition)
                if partition is None:
                    partition = SessionPartition(self, session_topic, part)
                    session_topic.by_index[part.partition] = partition
                    self.size += 1
                else:
                    partition.requested(part)
                self.changed[partition] = None
                if not number % PARTITIONS_PER_SLICE:
                    yield PARTITIONS_PER_SLICE
            yield 1

    def forget(self, request: FetchRequest) -> None:
        """Remove the partitions that the request no longer wants."""
        for topic in request.forgotten_topics_data:
            key = self._key(topic.topic, topic.topic_id)
            session_topic = self.topics.get(key)
            if session_topic is not None:
                for index in topic.partitions:
                    removed = session_topic.by_index.pop(index, None)
                    if removed is not None:
                        self.size -= 1
                        removed.is_removed = True
                        self.changed.pop(removed, None)
                if not session_topic.by_index:
                    del self.topics[key]

    def sent(self, responses: Iterable[FetchableTopicResponse]) -> None:
        """Note the response; partitions with data are served last the next time."""
        for _ in self.sent_in_steps(responses):
            pass

    def sent_in_steps(self, responses: Iterable[FetchableTopicResponse]) -> Iterator[int]:
        """`sent` in steps; yields their costs."""
        for topic in responses:
            key = self._key(topic.topic, topic.topic_id)
            session_topic = self.topics.get(key)
            if session_topic is None:
                continue
            for number, data in enumerate(topic.partitions, 1):
                if not number % PARTITIONS_PER_SLICE:
                    yield PARTITIONS_PER_SLICE
                if type(data) in _ENCODED_TYPES:
                    continue  # see `sent_encoded`
                partition = session_topic.by_index.get(data.partition_index)
                if partition is not None:
                    partition.sent(data)
                    if data.records:
                        self.changed.pop(partition, None)
                        self.changed[partition] = None
            yield 1

    def sent_encoded(self, encoded: Iterable[tuple[SessionPartition, int, int, bool]]) -> None:
        """`sent` for encoded partitions: high watermark, log start, whether there are records."""
        changed = self.changed
        for session_partition, high_watermark, start, has_records in encoded:
            session_partition.high_watermark, session_partition.start = high_watermark, start
            if has_records:
                changed.pop(session_partition, None)
                changed[session_partition] = None


class FetchSessions:
    """At most `slots` sessions, ordered from the least to the most recently used."""

    def __init__(self, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, request: FetchRequest, version: int, now: Now) -> FetchSession | int | None:
        """The session that a request continues, None without one, or an error code."""
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self.drop(request.session_id)
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= BY_ID_SINCE):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(request.topics)
        session.forget(request)
        if not session.topics:
            self.drop(session.id)
            return None
        self.advance(session, now)
        return session

    def advance(self, session: FetchSession, now: Now) -> None:
        """Advance the epoch of a session, which becomes the most recently used."""
        del self._sessions[session.id]
        self._sessions[session.id] = session
        session.used_ms = now.monotonic_ms
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def drop(self, session_id: int) -> None:
        """Remove a session; a client that uses it again gets an error and starts another one.

        Partitions report nothing to it any more, so its delayed fetch ends too (V24).
        """
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.is_closed = True
            if session.delayed is not None:
                session.delayed.session_ended()

    def has(self, session: FetchSession) -> bool:
        return self._sessions.get(session.id) is session

    def open(self, request: FetchRequest, version: int, now: Now) -> FetchSession | None:
        """Create a session for a client that wants one, if there is room."""
        steps = self.open_in_steps(request, version, now)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                session: FetchSession | None = stop.value
                return session

    def open_in_steps(
        self, request: FetchRequest, version: int, now: Now
    ) -> Generator[int, None, FetchSession | None]:
        """`open` in steps; yields their costs."""
        follower_id = request.replica_id if version < 15 else request.replica_state.replica_id
        session = FetchSession(
            self._new_id(),
            by_id=version >= BY_ID_SINCE,
            follower_id=follower_id,
            now=now,
        )
        yield from session.update_in_steps(request.topics)
        if session.is_follower:
            self._end_former(session)
        if not session.topics or not self._make_room(session, now):
            return None
        self._sessions[session.id] = session
        return session

    def _end_former(self, session: FetchSession) -> None:
        """End the former session of a follower, which fetches a partition in one session only.

        If it is the new one whose request is late, from a former connection, the follower learns
        that its session has ended, and names its positions again (V23).
        """
        for former in list(self._sessions.values()):
            is_same = former.follower_id == session.follower_id
            if is_same and session.shares_partition(former):
                self.drop(former.id)

    def _new_id(self) -> int:
        """A random id: a client may still use an id from before a restart."""
        while True:
            session_id = self._rng.getrandbits(31)
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id

    def _make_room(self, newcomer: FetchSession, now: Now) -> bool:
        """Evict a session if there is no room for another one; returns whether there is room.

        An idle session is evicted first; else the smallest one, if it is smaller than the newcomer
        and has a minimum age. A follower's session counts as larger than any consumer's, and evicts
        one of any age.
        """
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now.monotonic_ms - oldest.used_ms > EVICTION_MS:
            self.drop(oldest.id)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if now.monotonic_ms - session.created_ms > EVICTION_MS
            or (newcomer.is_follower and not session.is_follower)
        ]
        if not evictable:
            return False
        smallest = min(evictable, key=_eviction_rank)
        if _eviction_rank(smallest) >= _eviction_rank(newcomer):
            return False
        self.drop(smallest.id)
        return True


def _eviction_rank(session: FetchSession) -> tuple[bool, int]:
    return session.is_follower, session.size
