"""Repeated Produce requests for one partition that differ only in their batch.

The checks are those of the handler, without decoding; a batch that fails a check is passed
to the handler, which finds the error code. Responses that wait for the same write are sent
together.
"""

from __future__ import annotations

from functools import partial
from struct import Struct

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import is_internal
from kraftlog.node.produce.handler import ACKS, BY_ID_SINCE, rules_for, timeout_ms
from kraftlog.node.templates.encoded_responses import RESPONSE_HEAD, split_around_numbers
from kraftlog.records.header import NO_TIMESTAMP, BatchHeader
from kraftlog.records.plain_batch import (
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    SMALLEST_BATCH,
    plain_fields,
)
from kraftlog.replication.partition import ACKS_ALL, ACKS_NONE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import LENGTH_SIZE, request_frame, response_frame
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kraftlog.wire.primitives import Malformed, rest_of_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.templates.request_templates import ServedRequest
    from kraftlog.replication.partition import Partition, PartitionAppend
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.messages.produce import ProduceRequest

_API = APIS[ApiKey.PRODUCE]
_INT32 = Struct(">i")
_INT64 = Struct(">q")
#: At most this many responses share one `PendingResponses`: more would gain nothing.
MAX_JOINED = 64
#: Instead of a base offset: each response has that of its own batch.
OWN_OFFSET = -2


class PendingResponses:
    """Responses of one connection that wait for the same write, as one pending response."""

    __slots__ = (
        "_template",
        "base_offset",
        "error_code",
        "packed",
        "pieces",
        "received_ms",
        "response",
        "start",
        "waits",
        "write",
    )

    api = _API
    #: The batches are written or being written, so they take no request memory.
    size = 0

    def __init__(
        self, template: ProduceTemplate, start: int, write: PartitionAppend | None, now: Now
    ) -> None:
        self._template = template
        self.received_ms = now.monotonic_ms
        #: The log start offset in all of these responses.
        self.start = start
        #: The append that they wait for.
        self.write = write
        #: The encoded responses.
        self.packed: list[bytes] = []
        self.pieces: list[Any] | None = None
        self.waits = 1
        self.response: Any = None
        #: Error code and base offset for all of them, set if the append fails.
        self.error_code = int(ErrorCode.NONE)
        self.base_offset = OWN_OFFSET

    @property
    def count(self) -> int:
        return len(self.packed)

    def respond(self, _: Any) -> None:
        if self.error_code:
            self.packed = [self._error_response(encoded) for encoded in self.packed]
        self.pieces = [b"".join(self.packed)]
        self._template.complete(self)

    def _error_response(self, encoded: bytes) -> bytes:
        """The error response in place of an encoded response without an error."""
        template = self._template
        _, correlation_id = RESPONSE_HEAD.unpack_from(encoded)
        base = self.base_offset
        if base == OWN_OFFSET:
            base = template.base_offset_in(encoded)
        return template.encode_response(correlation_id, self.error_code, base, self.start)

    def abandon(self) -> None:
        """The connection is closed; the batches stay in the log."""


class ProduceTemplate:
    """Produce requests of one connection to one partition."""

    __slots__ = (
        "_acks",
        "_append_config",
        "_back",
        "_count_key",
        "_front",
        "_is_flexible",
        "_latest",
        "_least_size",
        "_name",
        "_pack",
        "_records_at",
        "_replica_manager",
        "_requests",
        "_response_size",
        "_rules",
        "_start",
        "_suffix",
        "_timeout_ms",
        "_topic_id",
        "_version",
        "connection",
        "head",
        "node",
        "partition",
        "prefix",
    )

    def __init__(
        self,
        node: ServingNode,
        pending: PendingResponse,
        partition: Partition,
        request: ProduceRequest,
        prefix: bytes,
        suffix: bytes,
    ) -> None:
        version = pending.version
        self.head = _API.key << 16 | version
        self.prefix = prefix
        self.connection = pending.connection
        self._suffix = suffix
        self._version = version
        self._is_flexible = version >= _API.flexible
        self._records_at = 8 + len(prefix)
        # The smallest request with a whole batch header, whatever the length of its size field.
        length_size = 1 if self._is_flexible else _INT32.size
        self._least_size = self._records_at + length_size + SMALLEST_BATCH + len(suffix)
        self.node = node
        self._replica_manager = node.replica_manager
        self._requests = node.counts.requests
        self._count_key = node.counts.key_of(_API.key, version)
        self.partition = partition
        topic = request.topic_data[0]
        self._name, self._topic_id = topic.name, topic.topic_id
        self._acks = request.acks
        self._timeout_ms = timeout_ms(request)
        self._append_config = append_config = partition.append_config
        self._rules = rules_for(append_config, version)
        #: The latest pending responses, if others may still join them.
        self._latest: PendingResponses | None = None
        self._encode_template(partition.start)

    @property
    def is_stale(self) -> bool:
        return not self.partition.online or self.partition.append_config is not self._append_config

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
        partition, suffix = self.partition, self._suffix
        if (
            end - pos < self._least_size
            or not partition.online
            or partition.append_config is not self._append_config
            or self.node.client_quotas.is_active
        ):
            return False
        start = pos + self._records_at
        if self._is_flexible:
            size = buffer[start]
            start += 1
            if size > 0x7F:
                try:
                    size, start = rest_of_uvarint(buffer, start, size)
                except Malformed:
                    return False
            size -= 1
        else:
            (size,) = _INT32.unpack_from(buffer, start)
            start += 4
        records_end = start + size
        if records_end + len(suffix) != end or not buffer.startswith(suffix, records_end):
            return False
        if self._acks == ACKS_ALL and partition.lacks_replicas:
            return False
        fields = plain_fields(view, start, size, self._rules, now.wall_ms)
        if fields is None:
            return False
        base = partition.end
        if fields[PRODUCER_ID] < 0:
            partition.add(
                view[start:records_end],
                fields[LAST_OFFSET_DELTA],
                fields[MAX_TIMESTAMP],
                self._replica_manager.turn,
            )
        elif not self._append_idempotent(fields, view[start:records_end]):
            return False
        self._requests[self._count_key] += 1
        partition.counts.produces += 1
        if self._acks != ACKS_NONE:
            self._respond_later(correlation_id, base, now)
        return True

    def _append_idempotent(self, fields: Sequence[int], batch: memoryview) -> bool:
        """Append a batch with the next sequence number; others are left to the handler."""
        header = BatchHeader(*fields)
        if self.partition.check_producer(header):
            return False
        self.partition.append(header, batch, self._replica_manager.turn)
        return True

    # Responses -----------------------------------------------------------------------------------

    def _respond_later(self, correlation_id: int, base: int, now: Now) -> None:
        """Respond after the write, if possible together with the connection's last response."""
        partition, latest = self.partition, self._latest
        acks, responses, start = partition.acks, self.connection.responses, partition.start
        if start != self._start:
            self._encode_template(start)
        if (
            latest is not None
            and acks
            and acks[-1][1] is latest
            and responses[-1] is latest
            and latest.write is partition.open_append
            and latest.start == start
            and len(latest.packed) < MAX_JOINED
        ):
            acks[-1] = partition.end, latest, latest, self._timeout_ms
        else:
            latest = self._latest = PendingResponses(self, start, partition.open_append, now)
            responses.append(latest)
            # It gets the error code and base offset itself, in place of a partition result.
            acks.append((partition.end, latest, latest, self._timeout_ms))
        latest.packed.append(
            self._pack(self._response_size, correlation_id, self._front, base, self._back)
        )

    def complete(self, responses: PendingResponses) -> None:
        """Send the responses; no others join them."""
        if self._latest is responses:
            self._latest = None
        self.connection.ready(responses)

    def base_offset_in(self, encoded: bytes) -> int:
        """The base offset in an encoded response of the current template."""
        base: int = _INT64.unpack_from(encoded, RESPONSE_HEAD.size + len(self._front))[0]
        return base

    def encode_response(self, correlation_id: int, code: int, base: int, start: int) -> bytes:
        result = PartitionProduceResponse(
            index=self.partition.index,
            error_code=code,
            base_offset=base,
            log_append_time_ms=NO_TIMESTAMP,
            log_start_offset=start,
        )
        response = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=self._name, topic_id=self._topic_id, partition_responses=[result]
                )
            ]
        )
        return b"".join(response_frame(_API, self._version, correlation_id, response))

    def _encode_template(self, start: int) -> None:
        """Encode the response once, without correlation id and base offset."""
        front, back = split_around_numbers(
            lambda base: self.encode_response(0, 0, base, start), _INT64.size
        )
        layout = Struct(f">ii{len(front)}sq{len(back)}s")
        self._start = start
        self._response_size = layout.size - LENGTH_SIZE
        self._front, self._back = front, back
        self._pack = layout.pack


def maker_of(served: ServedRequest) -> Callable[[], ProduceTemplate | None] | None:
    """What makes the template of a served request; None if the fast path does not support it."""
    request = served.request
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        return None
    topic = request.topic_data[0]
    part = topic.partition_data[0]
    partition = served.node.replica_manager.partition(
        topic.name, topic.topic_id, part.index, served.pending.version >= BY_ID_SINCE
    )
    if isinstance(partition, int) or not partition.online or part.records is None:
        return None
    append_config = partition.append_config
    if (
        not append_config.stores_as_produced
        or is_internal(partition.topic)
        or request.acks not in ACKS
    ):
        return None
    return partial(_template_of, served, partition, part.records)


def _template_of(
    served: ServedRequest, partition: Partition, records: Buffer
) -> ProduceTemplate | None:
    """The template; None if the client's encoding differs from this codec's."""
    pending, request, frame = served.pending, served.request, served.frame
    size = len(records)
    pieces = request_frame(_API, pending.version, 0, pending.client_id, request)
    index = next(i for i, piece in enumerate(pieces) if piece is records)
    length_size = len(uvarint(size + 1)) if pending.version >= _API.flexible else _INT32.size
    prefix = b"".join(pieces[:index])[LENGTH_SIZE + 8 : -length_size]
    suffix = b"".join(pieces[index + 1 :])
    if (
        8 + len(prefix) + length_size + size + len(suffix) != len(frame)
        or frame[8 : 8 + len(prefix)] != prefix
        or frame[len(frame) - len(suffix) :] != suffix
    ):
        return None
    return ProduceTemplate(served.node, pending, partition, request, prefix, suffix)
