"""Sends finished batches, with several requests in flight to each leader.

It is for callers that encode many records at once; `producer` collects single ones. Batches of a
partition are written in the order in which they were sent, each once, if the sender is idempotent:
after a failure all that is not acknowledged is sent again, with the same sequence numbers.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager

from kraftlog.client.cluster import is_retriable
from kraftlog.client.produce_requests import (
    ACKS,
    SEQUENCES,
    BatchInFlight,
    new_identity,
    produce_request,
    results,
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

    #: Batches of one request, by partition.
    Share = dict[PartitionName, BatchInFlight]

#: Brokers keep the sequence numbers of a producer's last five batches of a partition.
MAX_IN_FLIGHT = 5
#: Batches of several partitions travel in one request until it has this many bytes.
REQUEST_BYTES = 4 << 20


class BatchSender:
    """Not thread-safe. After an error that is raised, the next batch begins a new producer id."""

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
        #: What is not acknowledged, of each partition in the order of sending.
        self._unacknowledged: dict[PartitionName, deque[BatchInFlight]] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: dict[int, deque[Share]] = {}
        #: Partitions whose first batch since the last flush is sent. The second waits for it: a
        #: broker that does not know the producer would accept the second without the first.
        self._started: set[PartitionName] = set()

    def close(self) -> None:
        """Close the connections; what is not acknowledged is given up."""
        self._disconnect()
        self._unacknowledged.clear()

    def send(self, batches: Iterable[tuple[PartitionName, EncodedBatch]]) -> None:
        """Send batches; return when all but the last few requests are acknowledged."""
        with self._giving_up():
            rounds = self._rounds([self._numbered(name, batch) for name, batch in batches])
            with self._recovering():
                for share in rounds:
                    for leader, part in self._by_leader(share, self._deadline()).items():
                        self._send_request(leader, part)
                    if self._is_idempotent and not share.keys() <= self._started:
                        self._started.update(share)
                        self._receive_all()

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        with self._giving_up(), self._recovering():
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
    def _giving_up(self) -> Iterator[None]:
        """After an error the next batch begins a new producer id."""
        try:
            yield
        except BaseException:
            self.close()
            self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            self._sequences.clear()
            self._started.clear()
            raise

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """After a failure all that is not acknowledged is sent again."""
        try:
            yield
        except (RefusedError, UnreachableError) as error:
            self._recover(error)

    def _numbered(self, name: PartitionName, batch: EncodedBatch) -> BatchInFlight:
        """A complete batch, with the next sequence numbers if idempotent."""
        sequence = NO_SEQUENCE
        if self._is_idempotent:
            if self._identity[0] == NO_PRODUCER_ID:
                self._identity = new_identity(self._cluster)
            sequence = self._sequences.get(name, 0)
            self._sequences[name] = (sequence + batch.count) % SEQUENCES
        producer_id, epoch = self._identity
        made = wrap_records(
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
        sending = BatchInFlight(name, made, batch.count)
        self._unacknowledged.setdefault(name, deque()).append(sending)
        return sending

    def _rounds(self, batches: Sequence[BatchInFlight]) -> Iterator[Share]:
        """Group batches into requests: one of each partition, and not too many bytes."""
        share: Share = {}
        size = 0
        queues: dict[PartitionName, deque[BatchInFlight]] = {}
        for batch in batches:
            queues.setdefault(batch.name, deque()).append(batch)
        while queues:
            for name in list(queues):
                batch = queues[name].popleft()
                if not queues[name]:
                    del queues[name]
                if share and (name in share or size + len(batch.batch) > self._request_bytes):
                    yield share
                    share, size = {}, 0
                share[name] = batch
                size += len(batch.batch)
        if share:
            yield share

    def _by_leader(self, share: Share, deadline: Deadline) -> dict[int, Share]:
        found: dict[int, Share] = {}
        for name, batch in share.items():
            found.setdefault(self._cluster.leader(*name, deadline), {})[name] = batch
        return found

    def _connection(self, leader: int, deadline: Deadline) -> Connection:
        """A connection of the sender's own, as responses arrive while others use the cluster."""
        known = self._connections.get(leader)
        if known is None:
            self._cluster.connection(leader, deadline)  # knows the broker's address from now on
            known = self._connections[leader] = self._cluster.open_connection(leader, deadline)
        return known

    def _send_request(self, leader: int, share: Share) -> None:
        flights = self._in_flight.setdefault(leader, deque())
        while len(flights) >= self._max_in_flight:
            self._receive(leader)
        if self._sent(leader, share, self._deadline()) is not None:
            flights.append(share)

    def _receive_all(self) -> None:
        for leader, flights in self._in_flight.items():
            while flights:
                self._receive(leader)

    def _receive(self, leader: int) -> None:
        """Take the oldest response of a leader; raise the first error."""
        share = self._in_flight[leader][0]
        response = self._connections[leader].receive(self._deadline())
        self._in_flight[leader].popleft()
        self._take(response, share, leader)

    def _take(self, response: object, share: Share, leader: int) -> None:
        assert isinstance(response, ProduceResponse)
        refused = []
        for name, result in results(response, self._cluster.error_context("Produce", leader)):
            if isinstance(result, RefusedError):
                refused.append(result)
            else:
                self._done(share[name])
        final = [error for error in refused if not is_retriable(error)]
        for error in final or refused:
            raise error

    def _done(self, batch: BatchInFlight) -> None:
        waiting = self._unacknowledged[batch.name]
        waiting.remove(batch)
        if not waiting:
            del self._unacknowledged[batch.name]

    def _recover(self, error: RefusedError | UnreachableError) -> None:
        """Send again what is not acknowledged, one batch of each partition at a time."""
        if isinstance(error, RefusedError) and not is_retriable(error):
            raise error
        self._drain()
        self._disconnect()
        self._cluster.drop_cache()
        deadline = self._cluster.deadline(self._delivery_timeout_s)
        while self._unacknowledged:
            self._cluster.retry(lambda: self._resend(deadline), deadline)

    def _drain(self) -> None:
        """Take the responses that are still to come; their errors follow from the first."""
        for leader, flights in self._in_flight.items():
            while flights:
                try:
                    self._receive(leader)
                except RefusedError:
                    continue
                except UnreachableError:
                    break

    def _resend(self, deadline: Deadline) -> None:
        oldest = [queue[0] for queue in self._unacknowledged.values()]
        try:
            for share in self._rounds(oldest):
                for leader, part in self._by_leader(share, deadline).items():
                    self._call(leader, part, deadline)
        except UnreachableError:
            self._disconnect()
            raise

    def _call(self, leader: int, share: Share, deadline: Deadline) -> None:
        connection = self._sent(leader, share, deadline)
        if connection is not None:
            self._take(connection.receive(deadline), share, leader)

    def _sent(self, leader: int, share: Share, deadline: Deadline) -> Connection | None:
        """Send a request; return the connection that owes its response, if there will be one."""
        connection = self._connection(leader, deadline)
        request = produce_request(share.values(), self._acks, self._request_timeout_s)
        connection.send(request, deadline, expects_response=self._acks != 0)
        if self._acks != 0:
            return connection
        for batch in share.values():
            self._done(batch)
        return None
