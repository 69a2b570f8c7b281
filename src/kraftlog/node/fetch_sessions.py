"""Fetch sessions (KIP-227): a reader of many partitions names only those that changed, and is told
only of those that did.

A session counts its requests: the reader says which one it sends, and where the two do not agree
the session is started anew. There are so many sessions and no more; who finds no place is served
without one.
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
#: The number of the request that begins a session, and of one that ends it or wants none.
FIRST, LAST = 0, -1
_MAX_EPOCH = 0x7FFFFFFF
BY_ID_SINCE = 13
#: So long a session may be silent, or is let live, before another takes its place (as in Kafka).
EVICTION_MS = 120_000
UNTOLD = -1
#: After so many partitions there is a pause, where there may be one.
PARTITIONS_IN_A_STEP = 200


class SessionPartition:
    """What the reader asked of a partition, and what it was told last."""

    __slots__ = ("asked", "high_watermark", "start")

    def __init__(self, asked: FetchPartition) -> None:
        self.asked = asked
        self.high_watermark = UNTOLD
        self.start = UNTOLD

    def sent(self, data: PartitionData) -> None:
        """After an error the reader is told in any case what is there."""
        self.high_watermark = UNTOLD if data.error_code else data.high_watermark
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
        return [partition.asked for partition in self.known.values()]


class FetchSession:
    """Belongs to one reader. `epoch` is the number of the request that comes next."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "is_follower", "size", "topics", "used_ms")

    def __init__(self, session_id: int, *, by_id: bool, is_follower: bool, now: Now) -> None:
        self.id = session_id
        self.by_id = by_id
        self.is_follower = is_follower
        self.epoch = 1
        self.created_ms = self.used_ms = now.monotonic_ms
        self.topics: dict[str | Uuid, SessionTopic] = {}
        #: How many partitions it has.
        self.size = 0

    def _key(self, topic: str, topic_id: Uuid) -> str | Uuid:
        return topic_id if self.by_id else topic

    def is_about(self, topic: str, topic_id: Uuid, index: int) -> bool:
        """Whether this partition is all that it has."""
        if len(self.topics) != 1:
            return False
        found = self.topics.get(self._key(topic, topic_id))
        return found is not None and len(found.known) == 1 and index in found.known

    def find(self, topic: str, topic_id: Uuid, index: int) -> SessionPartition | None:
        found = self.topics.get(self._key(topic, topic_id))
        return None if found is None else found.known.get(index)

    def ask(self, topics: Iterable[FetchTopic]) -> None:
        """These are asked for from now on, or in another way than before."""
        for _ in self.asking(topics):
            pass

    def asking(self, topics: Iterable[FetchTopic]) -> Iterator[int]:
        """The same in steps; yields what each has cost."""
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
                    before.asked = part
                if not number % PARTITIONS_IN_A_STEP:
                    yield PARTITIONS_IN_A_STEP
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
        """The reader is about to hear this; what had data is served last the next time."""
        for _ in self.sent_in_steps(responses):
            pass

    def sent_in_steps(self, responses: Iterable[FetchableTopicResponse]) -> Iterator[int]:
        """The same in steps; yields what each has cost."""
        for topic in responses:
            key = self._key(topic.topic, topic.topic_id)
            known = self.topics.get(key)
            if known is None:
                continue
            had_data = False
            for number, data in enumerate(topic.partitions, 1):
                if not number % PARTITIONS_IN_A_STEP:
                    yield PARTITIONS_IN_A_STEP
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
    """At most `slots` of them, the one that was used longest ago first."""

    def __init__(self, slots: int, rng: Rng) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def go_on(self, request: FetchRequest, version: int, now: Now) -> FetchSession | int | None:
        """The session that a request goes on with; None: it has none (yet); else what is wrong."""
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
        session.ask(request.topics)
        session.forget(request)
        if not session.topics:
            del self._sessions[session.id]
            return None
        self.advance(session, now)
        return session

    def advance(self, session: FetchSession, now: Now) -> None:
        """It has been used: the next to be silent for long are others."""
        del self._sessions[session.id]
        self._sessions[session.id] = session
        session.used_ms = now.monotonic_ms
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1

    def of(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def drop(self, session_id: int) -> None:
        """Its reader is told that there is none, and begins another."""
        self._sessions.pop(session_id, None)

    def has(self, session: FetchSession) -> bool:
        return self._sessions.get(session.id) is session

    def open(self, request: FetchRequest, version: int, now: Now) -> FetchSession | None:
        """A session for a client that asks for one, if there is a place."""
        opening = self.opening(request, version, now)
        while True:
            try:
                next(opening)
            except StopIteration as stop:
                session: FetchSession | None = stop.value
                return session

    def opening(
        self, request: FetchRequest, version: int, now: Now
    ) -> Generator[int, None, FetchSession | None]:
        """The same in steps; yields what each has cost."""
        follower_id = request.replica_id if version < 15 else request.replica_state.replica_id
        session = FetchSession(
            self._new_id(),
            by_id=version >= BY_ID_SINCE,
            is_follower=follower_id >= 0,
            now=now,
        )
        yield from session.asking(request.topics)
        if not session.topics or not self._make_place(session, now):
            return None
        self._sessions[session.id] = session
        return session

    def _new_id(self) -> int:
        """One that no reader has from an earlier life of this node either, as good as surely."""
        while True:
            session_id = self._rng.getrandbits(31)
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id

    def _make_place(self, newcomer: FetchSession, now: Now) -> bool:
        """A silent session gives way; else one that has lived for a while and is worth less."""
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now.monotonic_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        settled = [
            session
            for session in self._sessions.values()
            if now.monotonic_ms - session.created_ms > EVICTION_MS
            or (newcomer.is_follower and not session.is_follower)
        ]
        if not settled:
            return False
        least = min(settled, key=_worth)
        if _worth(least) >= _worth(newcomer):
            return False
        del self._sessions[least.id]
        return True


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.is_follower, session.size
