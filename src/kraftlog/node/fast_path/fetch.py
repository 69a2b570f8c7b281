"""Fetch requests that repeat but for offset and number: one partition, in one session or in none.

Served here is a reader who finds enough at once, as one who catches up does all the time. Who has
to wait, or has nothing to hear, or is refused, goes to `handlers.fetch`.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.node.fast_path.encoded_responses import around_numbers
from kraftlog.node.fast_path.request_templates import LONGEST_PREFIX
from kraftlog.node.fetch_sessions import FIRST, LAST, NO_SESSION
from kraftlog.node.handlers.fetch import BY_ID_SINCE, READ_COMMITTED
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import LENGTH_SIZE, request_frame, response_frame
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraftlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.fetch_sessions import FetchSession
    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.messages.fetch import FetchRequest

_API = APIS[ApiKey.FETCH]
#: The first version with sessions.
SESSIONS_SINCE = 7
_INT32, _INT64 = Struct(">i"), Struct(">q")
#: High watermark, last stable offset, start of the log: they stand behind each other.
_OFFSETS_SIZE = 24


class ReadyResponse:
    """Stands where a slot stands: an answer that is ready."""

    __slots__ = ("asked_ms", "pieces")

    api = _API
    count = 1
    size = 0

    def __init__(self, pieces: list[Any], now: Now) -> None:
        self.pieces = pieces
        self.asked_ms = now.monotonic_ms

    def abandon(self) -> None:
        """Nothing goes on for it."""


class FetchTemplate:
    """Fetches of one connection from one partition."""

    __slots__ = (
        "_asked",
        "_behind_front",
        "_connection",
        "_count_key",
        "_epoch_at",
        "_front",
        "_is_flexible",
        "_max_bytes",
        "_middle",
        "_offset_at",
        "_pack",
        "_request",
        "_session",
        "_size",
        "_suffix",
        "_tail",
        "_topic",
        "head",
        "node",
        "partition",
        "prefix",
    )

    def __init__(
        self,
        node: Node,
        slot: PendingResponse,
        request: FetchRequest,
        partition: Partition,
        session: FetchSession | None,
        form: tuple[bytes, bytes, bytes],
    ) -> None:
        version = slot.version
        front, middle, self._suffix = form
        self.head = _API.key << 16 | version
        self._epoch_at = 8 + len(front)
        self._offset_at = self._epoch_at + _INT32.size + len(middle)
        if session is None:  # its number is always the same: whatever is asked for is told apart
            front, middle = front + _INT32.pack(LAST) + middle, b""
        self.prefix, self._middle = front, middle
        self._size = self._offset_at + _INT64.size + len(self._suffix)
        self.node = node
        self._connection = slot.connection
        self._request = request
        self._topic = request.topics[0]
        self._asked = self._topic.partitions[0]
        self._max_bytes = min(self._asked.partition_max_bytes, request.max_bytes)
        self.partition = partition
        self._session = session
        self._is_flexible = version >= _API.flexible
        self._count_key = node.counts.key_of(_API.key, version)
        self._find_form_of_answers(version)

    @property
    def is_stale(self) -> bool:
        session = self._session
        return bool(self.partition.refusal(self._asked.current_leader_epoch)) or (
            session is not None and not self.node.fetch_sessions.has(session)
        )

    def take(
        self,
        buffer: bytearray,
        view: memoryview,  # noqa: ARG002 - all templates are called alike
        pos: int,
        end: int,
        correlation_id: int,
        now: Now,
    ) -> bool:
        """As `handlers.fetch` would, or not at all."""
        partition = self.partition
        at = pos + self._offset_at
        if (
            end - pos != self._size
            or not buffer.startswith(self._suffix, at + 8)
            or (self._session is not None and not self._is_next(self._session, buffer, pos))
            or partition.refusal(self._asked.current_leader_epoch)
        ):
            return False
        (offset,) = _INT64.unpack_from(buffer, at)
        if not partition.start <= offset < partition.high_watermark:
            return False
        node, request = self.node, self._request
        try:
            found = node.logs.locate(
                partition.log,
                offset,
                partition.high_watermark,
                min(self._max_bytes, node.max_fetch_bytes),
                True,
            )
        except StorageError:
            return False
        if found is None or (len(found) < request.min_bytes and request.max_wait_ms > 0):
            return False
        node.counts.requests[self._count_key] += 1
        counts = partition.counts
        counts.fetches += 1
        counts.bytes_out += len(found)
        if self._session is not None:
            self._go_on(self._session, offset, now)
        answer = ReadyResponse(self._answer(correlation_id, found), now)
        self._connection.slots.append(answer)
        self._connection.ready(answer)
        return True

    # The session ---------------------------------------------------------------------------------

    def _is_next(self, session: FetchSession, buffer: bytearray, pos: int) -> bool:
        """Whether this is the next request of a session that is about this partition alone."""
        at = pos + self._epoch_at
        return (
            _INT32.unpack_from(buffer, at)[0] == session.epoch
            and buffer.startswith(self._middle, at + _INT32.size)
            and self.node.fetch_sessions.has(session)
            and session.is_about(self._topic.topic, self._topic.topic_id, self._asked.partition)
        )

    def _go_on(self, session: FetchSession, offset: int, now: Now) -> None:
        self._asked = self._asked.replace(fetch_offset=offset)
        known = session.find(self._topic.topic, self._topic.topic_id, self._asked.partition)
        assert known is not None, "the session is about this partition"
        known.asked = self._asked
        known.high_watermark = self.partition.high_watermark
        known.start = self.partition.start
        self.node.fetch_sessions.advance(session, now)

    # Answers -------------------------------------------------------------------------------------

    def _answer(self, correlation_id: int, found: Any) -> list[Any]:
        size = len(found)
        length = uvarint(size + 1) if self._is_flexible else _INT32.pack(size)
        whole = self._pack.size + len(length) + size + len(self._tail) - LENGTH_SIZE
        high_watermark = self.partition.high_watermark
        head = self._pack.pack(
            whole,
            correlation_id,
            self._front,
            high_watermark,
            high_watermark,
            self.partition.start,
            self._behind_front,
        )
        return [head + length, found, self._tail] if self._tail else [head + length, found]

    def _find_form_of_answers(self, version: int) -> None:
        """What an answer is, but for offsets and records."""
        pieces = self._written(version, 0)
        front, back = around_numbers(
            lambda number: self._written(version, number)[0], _OFFSETS_SIZE
        )
        length_size = 1 if self._is_flexible else _INT32.size
        self._front, self._behind_front = front, back[:-length_size]
        self._tail = b"".join(pieces[2:])
        self._pack = Struct(f">ii{len(front)}sqqq{len(self._behind_front)}s")

    def _written(self, version: int, number: int) -> list[Any]:
        """An answer in the ordinary way, with a single byte for records: the second piece."""
        session = self._session
        data = PartitionData(
            partition_index=self._asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=number,
            last_stable_offset=number,
            log_start_offset=number,
            aborted_transactions=() if self._request.isolation_level == READ_COMMITTED else None,
            records=bytearray(1),
        )
        topic = FetchableTopicResponse(
            topic=self._topic.topic, topic_id=self._topic.topic_id, partitions=[data]
        )
        response = FetchResponse(
            error_code=ErrorCode.NONE,
            session_id=NO_SESSION if session is None else session.id,
            responses=[topic],
        )
        return response_frame(_API, version, 0, response)


def partition_of_request(
    node: Node, slot: PendingResponse, request: FetchRequest
) -> tuple[Partition, FetchSession | None] | None:
    """What a request that was served is about; None where there is something special."""
    if (
        slot.version < SESSIONS_SINCE
        or len(request.topics) != 1
        or len(request.topics[0].partitions) != 1
        or request.forgotten_topics_data
        or request.session_epoch == FIRST
        or max(request.replica_id, request.replica_state.replica_id) >= 0  # its progress counts
    ):
        return None
    topic = request.topics[0]
    asked = topic.partitions[0]
    by_id = slot.version >= BY_ID_SINCE
    partition = node.replica_manager.partition(topic.topic, topic.topic_id, asked.partition, by_id)
    session = node.fetch_sessions.of(request.session_id)
    ends = request.session_epoch == LAST and request.session_id != NO_SESSION
    if (
        isinstance(partition, int)
        or partition.refusal(asked.current_leader_epoch)
        or ends
        or asked.last_fetched_epoch >= 0
        or (session is None) != (request.session_epoch == LAST)
    ):
        return None
    return partition, session


def template_of(
    node: Node,
    slot: PendingResponse,
    request: FetchRequest,
    subject: tuple[Partition, FetchSession | None],
    buffer: Buffer,
    pos: int,
    end: int,
) -> FetchTemplate | None:
    """What is constant about it, unless it is said in another way than we would say it."""
    if (
        end - pos > LONGEST_PREFIX  # all of it is kept, wherever the long names stand
        or memoryview(buffer)[pos:end] != _request_frame(slot, request)
    ):
        return None
    form = _form_of(slot, request)
    return None if form is None else FetchTemplate(node, slot, request, *subject, form)


def _request_frame(slot: PendingResponse, request: FetchRequest) -> bytes:
    pieces = request_frame(_API, slot.version, slot.correlation_id, slot.client_id, request)
    return b"".join(pieces)[LENGTH_SIZE:]


def _form_of(slot: PendingResponse, request: FetchRequest) -> tuple[bytes, bytes, bytes] | None:
    """What is before, between and behind the number in the session and the offset."""
    frames = []
    for number in (0, -1):
        topic = request.topics[0]
        part = topic.partitions[0].replace(fetch_offset=number)
        changed = request.replace(session_epoch=number, topics=[topic.replace(partitions=[part])])
        frames.append(_request_frame(slot, changed))
    differ = [i for i, (a, b) in enumerate(zip(*frames, strict=True)) if a != b]
    if len(differ) != _INT32.size + _INT64.size:
        return None
    epoch_at, offset_at = differ[0], differ[_INT32.size]
    frame = frames[0]
    return (
        frame[8:epoch_at],
        frame[epoch_at + _INT32.size : offset_at],
        frame[offset_at + _INT64.size :],
    )
