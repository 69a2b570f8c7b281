"""Fetch sessions (KIP-227): requests and responses name only the partitions that changed.

Each request has the session epoch that the broker expects; if they differ, the client starts a new
session. The number of sessions is limited; a client without one gets full responses.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from kraftlog.controller.placement import Rng
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages.fetch import (
        FetchableTopicResponse,
        FetchPartition,
        FetchRequest,
        FetchTopic,
        PartitionData,
    )

NO_SESSION = 0
#: The epochs of a request that starts a session, and of one that ends it or wants none.
FIRST, LAST = 0, -1
_MAX_EPOCH = 0x7FFFFFFF
BY_ID_SINCE = 13
#: Idle time, or minimum age, after which a session may be evicted (as in Kafka).
EVICTION_MS = 120_000
UNKNOWN = -1
#: Partitions per slice, if the request is served in slices.
PARTITIONS_PER_SLICE = 200


class SessionPartition:
    """A partition's request, and the offsets in its last response."""

    __slots__ = ("high_watermark", "request", "start")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = UNKNOWN
        self.start = UNKNOWN

    def sent(self, data: PartitionData) -> None:
        """Note what the response has; after an error the next one includes the partition."""
        self.high_watermark = UNKNOWN if data.error_code else data.high_watermark
        self.start = data.log_start_offset


class SessionTopic:
    """The partitions of one topic, in the order in which they are served."""

    __slots__ = ("known", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: Uuid) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.known: dict[int, SessionPartition] = {}

    @property
    def partitions(self) -> list[FetchPartition]:
        return [partition.request for partition in self.known.values()]


class FetchSession:
    """The session of one client. `epoch` is the epoch of its next request."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "is_follower", "size", "topics", "used_ms")

    def __init__(self, session_id: int, *, by_id: bool, is_follower: bool, now: Now) -> None:
        self.id = session_id
        self.by_id = by_id
        self.is_follower = is_follower
        self.epoch = 1
        self.created_ms = self.used_ms = now.monotonic_ms
        self.topics: dict[str | Uuid, SessionTopic] = {}
        #: The number of partitions.
        self.size = 0

    def _key(self, topic: str, topic_id: Uuid) -> str | Uuid:
        return topic_id if self.by_id else topic

    def has_only(self, topic: str, topic_id: Uuid, index: int) -> bool:
        """Whether this is its only partition."""
        if len(self.topics) != 1:
            return False
        found = self.topics.get(self._key(topic, topic_id))
        return found is not None and len(found.known) == 1 and index in found.known

    def find(self, topic: str, topic_id: Uuid, index: int) -> SessionPartition | None:
        found = self.topics.get(self._key(topic, topic_id))
        return None if found is None else found.known.get(index)

    def update(self, topics: Iterable[FetchTopic]) -> None:
        """Add or update the partitions of a request."""
        for _ in self.update_in_steps(topics):
            pass

    def update_in_steps(self, topics: Iterable[FetchTopic]) -> Iterator[int]:
        """`update` in steps; yields their costs."""
        for topic in topics:
            key = self._key(topic.topic, topic.topic_id)
            known = self.topics.get(key)
            if known is None:
                known = self.topics[key] = SessionTopic(topic.topic, topic.topic_id)
            for number, part in enumerate(topic.partitions, 1):
                before = known.known.get(part.partition)
                if before is None:
                    known.known[part.partition] = SessionPartition(part)
                    self.size += 1
                else:
                    before.request = part
                if not number % PARTITIONS_PER_SLICE:
                    yield PARTITIONS_PER_SLICE
            yield 1

    def forget(self, request: FetchRequest) -> None:
        for topic in request.forgotten_topics_data:
            key = self._key(topic.topic, topic.topic_id)
            known = self.topics.get(key)
            if known is not None:
                for index in topic.partitions:
                    self.size -= known.known.pop(index, None) is not None
                if not known.known:
                    del self.topics[key]

    def sent(self, responses: Iterable[FetchableTopicResponse]) -> None:
        """Note the response; partitions with data move to the end of the next one."""
        for _ in self.sent_in_steps(responses):
            pass

    def sent_in_steps(self, responses: Iterable[FetchableTopicResponse]) -> Iterator[int]:
        """`sent` in steps; yields their costs."""
        for topic in responses:
            key = self._key(topic.topic, topic.topic_id)
            known = self.topics.get(key)
            if known is None:
                continue
            had_data = False
            for number, data in enumerate(topic.partitions, 1):
                if not number % PARTITIONS_PER_SLICE:
                    yield PARTITIONS_PER_SLICE
                partition = known.known.get(data.partition_index)
                if partition is not None:
                    partition.sent(data)
                    if data.records:
                        had_data = True
                        known.known[data.partition_index] = known.known.pop(data.partition_index)
            if had_data and key in self.topics:
                self.topics[key] = self.topics.pop(key)
            yield 1


class FetchSessions:
    """At most `slots` sessions, the least recently used first."""

    def __init__(self, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, request: FetchRequest, version: int, now: Now) -> FetchSession | int | None:
        """The session that a request continues, None without one, or an error code."""
        if request.session_epoch in {FIRST, LAST}:
            self._sessions.pop(request.session_id, None)
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
            del self._sessions[session.id]
            return None
        self.advance(session, now)
        return session

    def advance(self, session: FetchSession, now: Now) -> None:
        """Advance the epoch and make it the most recently used."""
        del self._sessions[session.id]
        self._sessions[session.id] = session
        session.used_ms = now.monotonic_ms
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1

    def of(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def drop(self, session_id: int) -> None:
        """Remove a session; the client's next request gets an error and it starts another."""
        self._sessions.pop(session_id, None)

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
            is_follower=follower_id >= 0,
            now=now,
        )
        yield from session.update_in_steps(request.topics)
        if not session.topics or not self._make_room(session, now):
            return None
        self._sessions[session.id] = session
        return session

    def _new_id(self) -> int:
        """A random id, so that no client has it from before a restart."""
        while True:
            session_id = self._rng.getrandbits(31)
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id

    def _make_room(self, newcomer: FetchSession, now: Now) -> bool:
        """Evict an idle session, else a smaller one that is old enough."""
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now.monotonic_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if now.monotonic_ms - session.created_ms > EVICTION_MS
            or (newcomer.is_follower and not session.is_follower)
        ]
        if not evictable:
            return False
        least = min(evictable, key=_value)
        if _value(least) >= _value(newcomer):
            return False
        del self._sessions[least.id]
        return True


def _value(session: FetchSession) -> tuple[bool, int]:
    return session.is_follower, session.size
