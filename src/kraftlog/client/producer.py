"""`Producer`: collects records in a batch per partition, and sends all when one is full.

There is no background thread: `send` calls `flush` when a record does not fit its batch. Batches
that are not acknowledged are sent again until the deadline; an idempotent producer gives them
sequence numbers, so that none is written twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraftlog.client.cluster import Cluster, is_retriable
from kraftlog.client.deadline import wall_ms
from kraftlog.client.partitioner import partition_of
from kraftlog.client.produce_requests import (
    ACKS,
    SEQUENCES,
    BatchInFlight,
    batch_results,
    new_identity,
    produce_request,
)
from kraftlog.errors import RefusedError, UnreachableError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from kraftlog.client.deadline import Deadline
    from kraftlog.client.model import PartitionName
    from kraftlog.records.record import Header

    #: Pairs of a name and a value; text is encoded as UTF-8.
    Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]

#: The most bytes that a record takes besides its key, value and headers.
_RECORD_OVERHEAD = 40


class Producer:
    """A producer; use it in a `with` block, whose end flushes it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: str = "all",
        compression: str = "none",
        is_idempotent: bool = True,
        batch_size: int = 128 << 10,
        may_create: bool = True,
        acknowledged: Callable[[int], None] | None = None,
    ) -> None:
        if acks not in ACKS:
            raise ValueError(f"acks {acks!r}: expected one of {', '.join(ACKS)}")
        if compression not in CODEC_NAMES:
            raise ValueError(f"compression {compression!r}: expected {', '.join(CODEC_NAMES)}")
        self._cluster = cluster
        self._acks = ACKS[acks]
        self._codec = CODEC_NAMES.index(compression)
        self._is_idempotent = is_idempotent and self._acks == -1
        self._batch_size = batch_size
        self._may_create = may_create
        #: Called with the number of records whenever a batch is acknowledged.
        self._acknowledged = acknowledged
        self._open: dict[PartitionName, BatchBuilder] = {}
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequences: dict[PartitionName, int] = {}
        #: Of each topic: the partition for records without a key until the next flush.
        self._sticky: dict[str, int] = {}
        #: Base offset of each partition's last acknowledged batch.
        self.last_base_offsets: dict[PartitionName, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> PartitionName:
        """Add a record to its partition's batch; return the partition. Text becomes UTF-8."""
        key, value = encoded(key, "key"), encoded(value, "value")
        headers = _headers(headers) if headers else ()
        name = (topic, self._partition(topic, key) if partition is None else partition)
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        size += sum(len(header[0]) * 4 + len(header[1] or b"") + 10 for header in headers)
        builder = self._open.get(name)
        if builder is not None and builder.size + size > self._batch_size:
            self.flush()
            builder = None
        if builder is None:
            builder = self._open[name] = self._new_batch(name)
        timestamp = wall_ms() if timestamp_ms is None else timestamp_ms
        builder.append(timestamp, key, value, headers)
        return name

    def flush(self) -> None:
        """Send all collected batches and wait until they are acknowledged."""
        if not self._open:
            return
        waiting = {
            name: BatchInFlight(name, builder.build(), builder.record_count)
            for name, builder in self._open.items()
        }
        self._open.clear()
        self._sticky.clear()
        deadline = self._cluster.deadline()
        try:
            self._cluster.retry(lambda: self._send_all(waiting, deadline), deadline)
        except (RefusedError, UnreachableError):
            self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            self._sequences.clear()
            raise

    def _partition(self, topic: str, key: bytes | None) -> int:
        partitions = self._cluster.topic(topic, may_create=self._may_create).partitions
        if key is not None:
            return partition_of(key, len(partitions))
        partition = self._sticky.get(topic)
        if partition is None:
            with_leader = [each.index for each in partitions if each.leader >= 0]
            if not with_leader:
                return 0
            partition = self._sticky[topic] = with_leader[wall_ms() % len(with_leader)]
        return partition

    def _new_batch(self, name: PartitionName) -> BatchBuilder:
        """An empty batch, with producer id, epoch and sequence if idempotent."""
        sequence = NO_SEQUENCE
        if self._is_idempotent:
            if self._identity[0] == NO_PRODUCER_ID:
                self._identity = new_identity(self._cluster)
            sequence = self._sequences.get(name, 0)
        producer_id, epoch = self._identity
        return BatchBuilder(
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    def _send_all(self, waiting: dict[PartitionName, BatchInFlight], deadline: Deadline) -> None:
        """Send one request per leader; acknowledged batches are removed from `waiting`."""
        by_leader: dict[int, list[BatchInFlight]] = {}
        for batch in waiting.values():
            topic, partition = batch.name
            self._cluster.topic(topic, deadline, may_create=self._may_create)
            leader = self._cluster.leader(topic, partition, deadline)
            by_leader.setdefault(leader, []).append(batch)
        for leader, batches in by_leader.items():
            request = produce_request(batches, self._acks, deadline.left_s())
            connection = self._cluster.connection(leader, deadline)
            if self._acks == 0:
                connection.send(request, deadline, expects_response=False)
                for batch in batches:
                    self._on_acknowledged(waiting, batch, -1)
                continue
            response = connection.call(request, deadline)
            assert isinstance(response, ProduceResponse)
            self._handle_response(response, waiting, leader)

    def _handle_response(
        self, response: ProduceResponse, waiting: dict[PartitionName, BatchInFlight], leader: int
    ) -> None:
        refused: list[RefusedError] = []
        context = self._cluster.error_context("Produce", leader)
        for name, result in batch_results(response, context):
            if isinstance(result, RefusedError):
                refused.append(result)
            else:
                self._on_acknowledged(waiting, waiting[name], result)
        not_retriable = [error for error in refused if not is_retriable(error)]
        for error in not_retriable or refused:
            raise error

    def _on_acknowledged(
        self, waiting: dict[PartitionName, BatchInFlight], batch: BatchInFlight, base_offset: int
    ) -> None:
        del waiting[batch.name]
        self.last_base_offsets[batch.name] = base_offset
        if self._is_idempotent:
            sequence = self._sequences.get(batch.name, 0)
            self._sequences[batch.name] = (sequence + batch.count) % SEQUENCES
        if self._acknowledged is not None:
            self._acknowledged(batch.count)


def encoded(text: bytes | str | None, argument: str = "value") -> bytes | None:
    if text is None or isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"{argument} {text!r}: expected bytes, text or None")


def _headers(headers: Headers) -> Sequence[Header]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(name, encoded(value, f"header {name}")) for name, value in pairs]
    except ValueError:
        raise TypeError(f"headers {headers!r}: expected pairs of a name and a value") from None
