"""Repeated Fetch requests of a follower in its session, each for a different list of partitions.

They differ in the session epoch and in the partitions whose positions have moved; each of these
partitions takes the same number of bytes. A request in which anything is unusual goes to
the handler.
"""

from __future__ import annotations

from functools import partial
from struct import Struct

from kraftlog.node.fetch.consumer_template import encoded_request
from kraftlog.node.fetch.delayed import FEW_PARTITIONS, DelayedFetch
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, UNKNOWN
from kraftlog.node.pending_response import PendingResponse
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.fetch_sessions import FetchSession, SessionPartition
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.templates.request_templates import ServedRequest
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest

    #: A partition, and the fetch offset, log start and maximum bytes in the request.
    Position = tuple[SessionPartition, int, int, int]

_API = APIS[ApiKey.FETCH]
#: The first version that names the follower at the end of the request.
REPLICA_STATE_SINCE = 15
_INT32 = Struct(">i")
#: Index, leader epoch, offset, last fetched epoch, log start, maximum bytes, number of tags.
_POSITION = Struct(">iiqiqiB")
_ID_SIZE = 16
#: The default of the high watermark field, in requests of followers that do not report theirs.
NO_HIGH_WATERMARK = 0x7FFFFFFFFFFFFFFF
#: Larger unsigned varints take more than a byte.
_MAX_ONE_BYTE = 0x7F


class FollowerFetchTemplate:
    """Fetch requests of one follower in one session."""

    __slots__ = (
        "_connection",
        "_count_key",
        "_epoch_at",
        "_follower",
        "_request",
        "_request_fields",
        "_session",
        "_suffix",
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
        session: FetchSession,
        parts: tuple[bytes, bytes],
    ) -> None:
        """`parts`: the constant bytes before the session epoch, and after the partitions."""
        self.head = _API.key << 16 | pending.version
        self.prefix, self._suffix = parts
        self._epoch_at = 8 + len(self.prefix)
        self.node = node
        #: A fetch appends nothing that would have to be taken back.
        self.partition = None
        self._connection = pending.connection
        self._request_fields = pending.version, pending.client_id
        self._session = session
        #: The request without partitions: its session has them.
        self._request = request.replace(topics=())
        self._follower = request.replica_state.replica_id, request.replica_state.replica_epoch
        self._count_key = node.counts.key_of(_API.key, pending.version)

    @property
    def is_stale(self) -> bool:
        return not self.node.fetch_sessions.has(self._session)

    def serve(
        self,
        buffer: bytearray,
        view: memoryview,
        pos: int,
        end: int,
        correlation_id: int,
        now: Now,
    ) -> bool:
        """Serve the request as the handler would, or return False."""
        node, session = self.node, self._session
        epoch_start = pos + self._epoch_at
        if (
            end - epoch_start <= _INT32.size + len(self._suffix)
            or _INT32.unpack_from(buffer, epoch_start)[0] != session.epoch
            or session.delayed is not None
            or not node.fetch_sessions.has(session)
        ):
            return False
        positions = self._positions(buffer, view, epoch_start + _INT32.size, end)
        if positions is None or self._has_many(positions):
            return False
        node.counts.requests[self._count_key] += 1
        pending = PendingResponse(self._connection)
        pending.api, pending.correlation_id, pending.received_ms = (
            _API,
            correlation_id,
            now.monotonic_ms,
        )
        pending.version, pending.client_id = self._request_fields
        self._connection.responses.append(pending)
        try:
            self._move(positions)
            node.fetch_sessions.advance(session, now)
            DelayedFetch(node, pending, self._request, session).respond_or_wait(now)
        except Exception:
            node.fetch_sessions.drop(session.id)
            raise
        return True

    def _positions(
        self, buffer: bytearray, view: memoryview, cursor: int, end: int
    ) -> list[Position] | None:
        """The positions in `buffer[cursor:end]`; None if anything is unusual."""
        session_topics, in_sync = self._session.topics, self.node.replica_manager.in_sync_replicas
        positions: list[Position] = []
        end -= len(self._suffix)
        count = buffer[cursor]
        cursor += 1
        if not 0 < count <= _MAX_ONE_BYTE:
            return None
        for _ in range(count - 1):
            if cursor + _ID_SIZE >= end:
                return None
            topic = session_topics.get(bytes(view[cursor : cursor + _ID_SIZE]))
            count = buffer[cursor + _ID_SIZE]
            cursor += _ID_SIZE + 1
            after = cursor + _POSITION.size * (count - 1)
            if topic is None or not 0 < count <= _MAX_ONE_BYTE or after >= end or buffer[after]:
                return None
            for index, epoch, offset, last_epoch, start, max_bytes, tags in _POSITION.iter_unpack(
                view[cursor:after]
            ):
                session_partition = topic.by_index.get(index)
                partition = None if session_partition is None else session_partition.partition
                if (
                    session_partition is None
                    or partition is None
                    or tags
                    or not partition.online
                    or epoch != partition.leader_epoch
                    or last_epoch != epoch
                    or not partition.start <= offset <= partition.written_end
                    or not in_sync.accepts(partition, *self._follower)
                ):
                    return None
                positions.append((session_partition, offset, start, max_bytes))
            cursor = after + 1
        return positions if cursor == end and buffer.startswith(self._suffix, cursor) else None

    def _has_many(self, positions: list[Position]) -> bool:
        """Whether too many partitions will have changed to read them in one slice."""
        changed = self._session.changed
        if len(changed) + len(positions) <= FEW_PARTITIONS:
            return False
        named = [position[0] for position in positions]
        return (
            len(changed) + sum([session_partition not in changed for session_partition in named])
            > FEW_PARTITIONS
        )

    def _move(self, positions: list[Position]) -> None:
        """Update the session, and note what the follower has, by its fetch offsets."""
        changed, in_sync = self._session.changed, self.node.replica_manager.in_sync_replicas
        for session_partition, offset, start, max_bytes in positions:
            part, partition = session_partition.request, session_partition.partition
            assert partition is not None, "the partition has been checked"
            if part.fetch_offset == offset:  # see `SessionPartition.requested`
                session_partition.high_watermark = UNKNOWN
            part.fetch_offset, part.log_start_offset, part.partition_max_bytes = (
                offset,
                start,
                max_bytes,
            )
            part.current_leader_epoch = part.last_fetched_epoch = partition.leader_epoch
            part.replica_directory_id, part.high_watermark = NULL_UUID, NO_HIGH_WATERMARK  # no tags
            changed[session_partition] = None
            in_sync.fetched(partition, *self._follower, offset, start)


def maker_of(served: ServedRequest) -> Callable[[], FollowerFetchTemplate | None] | None:
    """What makes the template of a served request; None if the fast path does not support it."""
    request = served.request
    if (
        served.pending.version < REPLICA_STATE_SINCE
        or request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        or request.forgotten_topics_data
    ):
        return None
    session = served.node.fetch_sessions.get(request.session_id)
    return None if session is None else partial(_template_of, served, session)


def _template_of(served: ServedRequest, session: FetchSession) -> FollowerFetchTemplate | None:
    """The template; None if the follower's encoding differs from this codec's."""
    pending, request = served.pending, served.request
    if served.frame != encoded_request(pending, request):
        return None
    first = encoded_request(pending, request.replace(session_epoch=0, topics=()))
    other = encoded_request(pending, request.replace(session_epoch=-1, topics=()))
    epoch_at = next(i for i, (a, b) in enumerate(zip(first, other, strict=True)) if a != b)
    parts = first[8:epoch_at], first[epoch_at + _INT32.size + 1 :]
    return FollowerFetchTemplate(served.node, pending, request, session, parts)
