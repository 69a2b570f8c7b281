"""Repeated Fetch requests for one partition that differ only in offset and session epoch.

Only fetches that find enough data at once are served here, like those of a consumer that catches
up. A fetch that must wait, or gets an empty response or an error, goes to the handler.
"""

from __future__ import annotations

from functools import partial
from struct import Struct

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.node.fetch.reader import RACKS_SINCE
from kraftlog.node.fetch.reading import READ_COMMITTED
from kraftlog.node.fetch_sessions import BY_ID_SINCE, FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kraftlog.node.templates.encoded_responses import split_around_numbers
from kraftlog.node.templates.request_templates import LONGEST_PREFIX
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import LENGTH_SIZE, request_frame, response_frame
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraftlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.fetch_sessions import FetchSession
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.templates.request_templates import ServedRequest
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest

_API = APIS[ApiKey.FETCH]
#: The first version with sessions.
SESSIONS_SINCE = 7
_INT32, _INT64 = Struct(">i"), Struct(">q")
#: High watermark, last stable offset and log start offset are adjacent.
_OFFSETS_SIZE = 24


class ReadyResponse:
    """An encoded response, in the place of a `PendingResponse`."""

    __slots__ = ("pieces", "received_ms")

    api = _API
    #: As in `PendingResponse`: one response, whose request takes no memory any more.
    count = 1
    size = 0

    def __init__(self, pieces: list[Any], now: Now) -> None:
        self.pieces = pieces
        self.received_ms = now.monotonic_ms

    def abandon(self) -> None:
        """There is nothing to cancel."""


class FetchTemplate:
    """Fetch requests of one connection for one partition."""

    __slots__ = (
        "_after_offsets",
        "_before_offsets",
        "_connection",
        "_count_key",
        "_epoch_at",
        "_head_struct",
        "_is_at_leader",
        "_is_flexible",
        "_max_bytes",
        "_middle",
        "_offset_at",
        "_partition_request",
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
        node: ServingNode,
        pending: PendingResponse,
        request: FetchRequest,
        partition: Partition,
        session: FetchSession | None,
        parts: tuple[bytes, bytes, bytes],
    ) -> None:
        """`parts`: the constant bytes of a request, see `_split_frame`."""
        version = pending.version
        prefix, middle, self._suffix = parts
        self.head = _API.key << 16 | version
        self._epoch_at = 8 + len(prefix)
        self._offset_at = self._epoch_at + _INT32.size + len(middle)
        if session is None:  # the session epoch is constant, so it belongs to the prefix
            prefix, middle = prefix + _INT32.pack(FINAL_EPOCH) + middle, b""
        self.prefix, self._middle = prefix, middle
        self._size = self._offset_at + _INT64.size + len(self._suffix)
        self.node = node
        self._connection = pending.connection
        self._request = request
        self._topic = request.topics[0]
        self._partition_request = self._topic.partitions[0]
        self._max_bytes = min(self._partition_request.partition_max_bytes, request.max_bytes)
        self.partition = partition
        self._is_at_leader = partition.leads
        self._session = session
        self._is_flexible = version >= _API.flexible
        self._count_key = node.counts.key_of(_API.key, version)
        self._encode_template(version)

    @property
    def is_stale(self) -> bool:
        session = self._session
        return self._is_refused or (
            session is not None and not self.node.fetch_sessions.has(session)
        )

    @property
    def _is_refused(self) -> bool:
        """Whether the leader has changed, or the log has failed."""
        partition = self.partition
        return partition.leads != self._is_at_leader or bool(
            partition.error_for_request(
                self._partition_request.current_leader_epoch,
                reads_followers=not self._is_at_leader,
            )
        )

    def serve(
        self,
        buffer: bytearray,
        view: memoryview,  # noqa: ARG002 - interface of templates
        pos: int,
        end: int,
        correlation_id: int,
        now: Now,
    ) -> bool:
        """Serve the request as the handler would, or return False."""
        partition = self.partition
        offset_start = pos + self._offset_at
        if (
            end - pos != self._size
            or not buffer.startswith(self._suffix, offset_start + 8)
            or (self._session is not None and not self._is_next(self._session, buffer, pos))
            or self._is_refused
            or self.node.client_quotas.is_active
        ):
            return False
        (offset,) = _INT64.unpack_from(buffer, offset_start)
        if not partition.start <= offset < partition.high_watermark:
            return False
        node, request = self.node, self._request
        try:
            records = node.logs.locate(
                partition.log,
                offset,
                partition.high_watermark,
                min(self._max_bytes, node.max_fetch_bytes),
                True,  # at least one batch
            )
        except StorageError:
            return False
        if records is None or (len(records) < request.min_bytes and request.max_wait_ms > 0):
            return False
        node.counts.requests[self._count_key] += 1
        counts = partition.counts
        counts.fetches += 1
        counts.bytes_out += len(records)
        if self._session is not None:
            self._continue_session(self._session, offset, now)
        response = ReadyResponse(self._response_pieces(correlation_id, records), now)
        self._connection.responses.append(response)
        self._connection.ready(response)
        return True

    # The session ---------------------------------------------------------------------------------

    def _is_next(self, session: FetchSession, buffer: bytearray, pos: int) -> bool:
        """Whether this is the next request of a session with only this partition."""
        epoch_start = pos + self._epoch_at
        return (
            _INT32.unpack_from(buffer, epoch_start)[0] == session.epoch
            and buffer.startswith(self._middle, epoch_start + _INT32.size)
            and self.node.fetch_sessions.has(session)
            and session.has_only(
                self._topic.topic, self._topic.topic_id, self._partition_request.partition
            )
        )

    def _continue_session(self, session: FetchSession, offset: int, now: Now) -> None:
        self._partition_request = self._partition_request.replace(fetch_offset=offset)
        session_partition = session.find(
            self._topic.topic, self._topic.topic_id, self._partition_request.partition
        )
        assert session_partition is not None, "the session is about this partition"
        session_partition.request = self._partition_request
        session_partition.high_watermark = self.partition.high_watermark
        session_partition.start = self.partition.start
        self.node.fetch_sessions.advance(session, now)

    # Responses -----------------------------------------------------------------------------------

    def _response_pieces(self, correlation_id: int, records: Any) -> list[Any]:
        size = len(records)
        length = uvarint(size + 1) if self._is_flexible else _INT32.pack(size)
        response_size = self._head_struct.size + len(length) + size + len(self._tail) - LENGTH_SIZE
        high_watermark = self.partition.high_watermark
        head = self._head_struct.pack(
            response_size,
            correlation_id,
            self._before_offsets,
            high_watermark,
            high_watermark,
            self.partition.start,
            self._after_offsets,
        )
        return [head + length, records, self._tail] if self._tail else [head + length, records]

    def _encode_template(self, version: int) -> None:
        """Encode the response once; offsets and records are filled in for each request."""
        pieces = self._encode(version, 0)
        front, back = split_around_numbers(
            lambda number: self._encode(version, number)[0], _OFFSETS_SIZE
        )
        length_size = 1 if self._is_flexible else _INT32.size
        self._before_offsets, self._after_offsets = front, back[:-length_size]
        self._tail = b"".join(pieces[2:])
        self._head_struct = Struct(f">ii{len(front)}sqqq{len(self._after_offsets)}s")

    def _encode(self, version: int, number: int) -> list[Any]:
        """Encode a whole response with one byte of records, which is the second piece."""
        session = self._session
        data = PartitionData(
            partition_index=self._partition_request.partition,
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


def maker_of(served: ServedRequest) -> Callable[[], FetchTemplate | None] | None:
    """What makes the template of a served request; None if the fast path does not support it."""
    node, pending, request = served.node, served.pending, served.request
    if (
        pending.version < SESSIONS_SINCE
        or len(request.topics) != 1
        or len(request.topics[0].partitions) != 1
        or request.forgotten_topics_data
        or request.session_epoch == INITIAL_EPOCH
    ):
        return None
    topic = request.topics[0]
    part = topic.partitions[0]
    by_id = pending.version >= BY_ID_SINCE
    partition = node.replica_manager.partition(topic.topic, topic.topic_id, part.partition, by_id)
    session = node.fetch_sessions.get(request.session_id)
    ends_session = request.session_epoch == FINAL_EPOCH and request.session_id != NO_SESSION
    if (
        isinstance(partition, int)
        or partition.error_for_request(
            part.current_leader_epoch, reads_followers=pending.version >= RACKS_SINCE
        )
        # Another replica may be nearer.
        or (partition.leads and request.rack_id and node.replica_manager.selects_by_rack)
        or ends_session
        or part.last_fetched_epoch >= 0
        or (session is None) != (request.session_epoch == FINAL_EPOCH)
    ):
        return None
    return partial(_template_of, served, partition, session)


def _template_of(
    served: ServedRequest, partition: Partition, session: FetchSession | None
) -> FetchTemplate | None:
    """The template; None if the request is long or not encoded as by this node's codec."""
    pending, request, frame = served.pending, served.request, served.frame
    if (
        len(frame) > LONGEST_PREFIX  # the template keeps the whole request
        or frame != encoded_request(pending, request)
    ):
        return None
    parts = _split_frame(pending, request)
    if parts is None:
        return None
    return FetchTemplate(served.node, pending, request, partition, session, parts)


def encoded_request(pending: PendingResponse, request: FetchRequest) -> bytes:
    """The request as this node's codec encodes it, without its length."""
    pieces = request_frame(
        _API, pending.version, pending.correlation_id, pending.client_id, request
    )
    return b"".join(pieces)[LENGTH_SIZE:]


def _split_frame(
    pending: PendingResponse, request: FetchRequest
) -> tuple[bytes, bytes, bytes] | None:
    """The bytes before the session epoch, between it and the offset, and after the offset.

    The first part begins after the correlation id. None if these numbers change other bytes, too.
    """
    frames = []
    for number in (0, -1):
        topic = request.topics[0]
        part = topic.partitions[0].replace(fetch_offset=number)
        changed = request.replace(session_epoch=number, topics=[topic.replace(partitions=[part])])
        frames.append(encoded_request(pending, changed))
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
