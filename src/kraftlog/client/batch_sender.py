"""Sends finished batches, with several requests in flight to each leader.

It is for callers that encode many records at once; `producer` collects single records. If the
sender is idempotent, the batches of a partition are written in the order in which they were sent,
each exactly once: after a failure all unacknowledged batches are sent again, with the same sequence
numbers.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager

from kraftlog.client.cluster import is_retriable
from kraftlog.client.produce_requests import (
    ACKS,
    SEQUENCES,
    BatchInFlight,
    batch_results,
    new_identity,
    produce_request,
)
from kraftlog.errors import RefusedError, UnreachableError
from kraftlog.records.builder import wrap_records
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.connection import Connection
    from kraftlog.client.deadline import Deadline
    from kraftlog.client.model import PartitionName
    from kraftlog.records.encode_columns import EncodedBatch

    #: Batches that are sent together, one of each partition.
    BatchesByPartition = dict[PartitionName, BatchInFlight]

#: Brokers keep the sequence numbers of a producer's last five batches of a partition.
MAX_IN_FLIGHT = 5
#: A request has batches of several partitions, up to this many bytes in total.
REQUEST_BYTES = 4 << 20


class BatchSender:
    """Sends batches; not thread-safe. After it has raised an error, it gets a new producer id."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: str = "all",
        compression: str = "none",
        level: int | None = None,
        is_idempotent: bool = True,
        max_in_flight: int = MAX_IN_FLIGHT,
        request_bytes: int = REQUEST_BYTES,
        request_timeout_s: float = 30.0,
        delivery_timeout_s: float = 120.0,
    ) -> None:
        self._cluster = cluster
        self._acks = ACKS[acks]
        self._codec = CODEC_NAMES.index(compression)
        self._level = level
        self._is_idempotent = is_idempotent and self._acks == -1
        self._max_in_flight = max_in_flight
        self._request_bytes = request_bytes
        self._request_timeout_s = request_timeout_s
        self._delivery_timeout_s = delivery_timeout_s
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequences: dict[PartitionName, int] = {}
        #: The unacknowledged batches of each partition, in the order of sending.
        self._unacknowledged: dict[PartitionName, deque[BatchInFlight]] = {}
        self._connections: dict[int, Connection] = {}
        #: Of each leader: the batches of each request that awaits its response.
        self._in_flight: dict[int, deque[BatchesByPartition]] = {}
        #: Partitions whose first batch since the last flush is acknowledged. A second batch waits
        #: for that: a broker that does not know the producer would accept it without the first one.
        self._started: set[PartitionName] = set()

    def close(self) -> None:
        """Close the connections, and forget the unacknowledged batches."""
        self._disconnect()
        self._unacknowledged.clear()

    def send(self, batches: Iterable[tuple[PartitionName, EncodedBatch]]) -> None:
        """Send batches; return when all but the last few requests are acknowledged."""
        with self._reset_on_error():
            rounds = self._rounds([self._new_batch(name, batch) for name, batch in batches])
            with self._resend_on_error():
                for round_batches in rounds:
                    for leader, leader_batches in self._by_leader(
                        round_batches, self._deadline()
                    ).items():
                        self._send_request(leader, leader_batches)
                    if self._is_idempotent and not round_batches.keys() <= self._started:
                        self._started.update(round_batches)
                        self._receive_all()

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        with self._reset_on_error(), self._resend_on_error():
            self._receive_all()
        self._started.clear()

    def _disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._in_flight.clear()

    def _deadline(self) -> Deadline:
        return self._cluster.deadline(self._request_timeout_s)

    @contextmanager
    def _reset_on_error(self) -> Iterator[None]:
        """After an error forget all batches, sequence numbers and the producer id."""
        try:
            yield
        except BaseException:
            self.close()
            self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            self._sequences.clear()
            self._started.clear()
            raise

    @contextmanager
    def _resend_on_error(self) -> Iterator[None]:
        """After an error that can be retried, send all unacknowledged batches again."""
        try:
            yield
        except (RefusedError, UnreachableError) as error:
            self._recover(error)

    def _new_batch(self, name: PartitionName, batch: EncodedBatch) -> BatchInFlight:
        """An unacknowledged batch, with the next sequence numbers if idempotent."""
        sequence = NO_SEQUENCE
        if self._is_idempotent:
            if self._identity[0] == NO_PRODUCER_ID:
                self._identity = new_identity(self._cluster)
            sequence = self._sequences.get(name, 0)
            self._sequences[name] = (sequence + batch.count) % SEQUENCES
        producer_id, epoch = self._identity
        encoded = wrap_records(
            batch.records,
            batch.count,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            codec=self._codec,
            level=self._level,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        in_flight = BatchInFlight(name, encoded, batch.count)
        self._unacknowledged.setdefault(name, deque()).append(in_flight)
        return in_flight

    def _rounds(self, batches: Sequence[BatchInFlight]) -> Iterator[BatchesByPartition]:
        """Yield rounds of batches: at most one of each partition, and a limited number of bytes."""
        round_batches: BatchesByPartition = {}
        size = 0
        queues: dict[PartitionName, deque[BatchInFlight]] = {}
        for batch in batches:
            queues.setdefault(batch.name, deque()).append(batch)
        while queues:
            for name in list(queues):
                batch = queues[name].popleft()
                if not queues[name]:
                    del queues[name]
                is_full = size + len(batch.batch) > self._request_bytes
                if round_batches and (name in round_batches or is_full):
                    yield round_batches
                    round_batches, size = {}, 0
                round_batches[name] = batch
                size += len(batch.batch)
        if round_batches:
            yield round_batches

    def _by_leader(
        self, batches: BatchesByPartition, deadline: Deadline
    ) -> dict[int, BatchesByPartition]:
        by_leader: dict[int, BatchesByPartition] = {}
        for name, batch in batches.items():
            by_leader.setdefault(self._cluster.leader(*name, deadline), {})[name] = batch
        return by_leader

    def _connection(self, leader: int, deadline: Deadline) -> Connection:
        """The sender's own connection to a leader: other requests use those of the cluster."""
        connection = self._connections.get(leader)
        if (
            connection is not None
            and connection.login_is_ending
            and not self._in_flight.get(leader)
        ):
            connection.close()
            connection = None
        if connection is None:
            self._cluster.connection(leader, deadline)  # also looks up the broker's address
            connection = self._connections[leader] = self._cluster.open_connection(leader, deadline)
        return connection

    def _send_request(self, leader: int, batches: BatchesByPartition) -> None:
        """Send a request; before that, receive responses while too many requests are in flight."""
        in_flight = self._in_flight.setdefault(leader, deque())
        connection = self._connections.get(leader)
        is_ending = connection is not None and connection.login_is_ending
        while len(in_flight) >= (1 if is_ending else self._max_in_flight):
            self._receive(leader)
        if self._start_request(leader, batches, self._deadline()) is not None:
            in_flight.append(batches)

    def _receive_all(self) -> None:
        for leader, in_flight in self._in_flight.items():
            while in_flight:
                self._receive(leader)

    def _receive(self, leader: int) -> None:
        """Receive the response to a leader's oldest request; raise its error, if any."""
        batches = self._in_flight[leader].popleft()
        response = self._connections[leader].receive(self._deadline())
        self._handle_response(response, batches, leader)

    def _handle_response(self, response: object, batches: BatchesByPartition, leader: int) -> None:
        assert isinstance(response, ProduceResponse)
        refused = []
        context = self._cluster.error_context("Produce", leader)
        for name, result in batch_results(response, context):
            if isinstance(result, RefusedError):
                refused.append(result)
            else:
                self._mark_acknowledged(batches[name])
        not_retriable = [error for error in refused if not is_retriable(error)]
        for error in not_retriable or refused:
            raise error

    def _mark_acknowledged(self, batch: BatchInFlight) -> None:
        queue = self._unacknowledged[batch.name]
        queue.remove(batch)
        if not queue:
            del self._unacknowledged[batch.name]

    def _recover(self, error: RefusedError | UnreachableError) -> None:
        """Send the unacknowledged batches again, one of each partition at a time."""
        if isinstance(error, RefusedError) and not is_retriable(error):
            raise error
        self._drain()
        self._disconnect()
        self._cluster.drop_cache()
        deadline = self._cluster.deadline(self._delivery_timeout_s)
        while self._unacknowledged:
            self._cluster.retry(lambda: self._resend(deadline), deadline)

    def _drain(self) -> None:
        """Receive the pending responses; their errors are consequences of the first one."""
        for leader, in_flight in self._in_flight.items():
            while in_flight:
                try:
                    self._receive(leader)
                except RefusedError:
                    continue
                except UnreachableError:
                    break

    def _resend(self, deadline: Deadline) -> None:
        oldest = [queue[0] for queue in self._unacknowledged.values()]
        try:
            for round_batches in self._rounds(oldest):
                for leader, leader_batches in self._by_leader(round_batches, deadline).items():
                    self._send_and_receive(leader, leader_batches, deadline)
        except UnreachableError:
            self._disconnect()
            raise

    def _send_and_receive(
        self, leader: int, batches: BatchesByPartition, deadline: Deadline
    ) -> None:
        connection = self._start_request(leader, batches, deadline)
        if connection is not None:
            self._handle_response(connection.receive(deadline), batches, leader)

    def _start_request(
        self, leader: int, batches: BatchesByPartition, deadline: Deadline
    ) -> Connection | None:
        """Send a request; return the connection of its response, or None with acks=0."""
        connection = self._connection(leader, deadline)
        request = produce_request(batches.values(), self._acks, self._request_timeout_s)
        connection.send(request, deadline, expects_response=self._acks != 0)
        if self._acks != 0:
            return connection
        for batch in batches.values():
            self._mark_acknowledged(batch)
        return None
