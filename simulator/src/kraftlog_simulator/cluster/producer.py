"""A producer: its batches in flight, in order, and their retries for a limited time.

It has at most `in_flight` batches in flight for a partition, and sends no other while these are out
(V24). A batch is sent again only once all earlier ones are done, as Kafka's producer does.
"""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.logstate.producers import RETAINED_BATCHES
from kraftlog.records.builder import BatchBuilder
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.init_producer_id import InitProducerIdRequest
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kraftlog_simulator.checkers.partition_history import UNKNOWN_OFFSET, Write
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.clients import ClientWorld

#: Values of `acks`.
ACKS_ALL, ACKS_LEADER = -1, 1
#: The newest of the partitions that had a number (V11).
NEWEST = -1
#: The producer id and sequence number without idempotence.
NO_PRODUCER = -1
#: Errors after which the batch is not in the log; after any other error it may be.
_NOT_APPENDED = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    )
)
REQUEST_MS = 1000
#: Errors of a producer that a partition does not know, or knows with older sequence numbers.
_UNKNOWN_PRODUCER = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)
#: How long a batch is retried.
DELIVERY_MS = 6000


class Batch:
    """Values for a partition, and the state of their delivery."""

    def __init__(self, key: PartitionKey, values: list[int], now: Now) -> None:
        self.key = key
        self.values = values
        self.deadline_ms = now.monotonic_ms + DELIVERY_MS
        #: The producer id and sequence number, the same in all attempts.
        self.producer_id = self.sequence = NO_PRODUCER
        #: The number of the batch among those that were sent to the partition.
        self.number = 0
        self.data = b""
        self.is_in_flight = False
        #: Whether the outcome of an attempt is unknown.
        self.is_uncertain = False
        self.retry_at_ms = 0


class Producer(Client):
    """Idempotent or not, waiting for all replicas or only for the leader."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.acks, self.is_idempotent = self.rng.pick(
            [
                (ACKS_ALL, True),
                (ACKS_ALL, True),
                (ACKS_ALL, True),
                (ACKS_ALL, False),
                (ACKS_LEADER, False),
            ]
        )
        self.is_running = False
        self._batches: dict[PartitionKey, list[Batch]] = {}
        self._producer_id = NO_PRODUCER
        self._sequences: dict[PartitionKey, int] = {}
        self._sent: dict[PartitionKey, int] = {}
        #: The first sequence number that a partition, with its first epoch, has acknowledged to a
        #: producer id.
        self._known_from: dict[tuple[PartitionKey, int, int], int] = {}
        #: By partition, the producer id of the last batch that was given up.
        self._given_up: dict[PartitionKey, int] = {}
        self._awaits_id = False
        self._retry_id_at_ms = 0

    @property
    def is_idle(self) -> bool:
        return not self._batches

    # The load ------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.is_running = True
        self._next_batch()

    def _next_batch(self) -> None:
        if not self.is_running:
            return
        world = self.world
        gap_ms = self.rng.between(*world.setting.batch_gap_ms)
        world.schedule(world.time + gap_ms, self._next_batch)
        keys = world.keys
        if keys:
            key = self.rng.pick(keys)
            values = [world.next_value() for _ in range(1 + self.rng.below(3))]
            self._batches.setdefault(key, []).append(Batch(key, values, self.read_clock()))
        self.take_turn()

    # Sending -------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        first = [batches[0] for batches in self._batches.values()]
        return min([batch.retry_at_ms for batch in first if not batch.is_in_flight], default=None)

    def work(self, now: Now) -> None:
        if self._batches and self.is_idempotent and self._producer_id == NO_PRODUCER:
            self._request_id(now)
        for batches in list(self._batches.values()):
            self._send_due(batches, now)

    def _send_due(self, batches: list[Batch], now: Now) -> None:
        """Send the batches of a partition that may be sent; give up one that is too old."""
        first, limit = batches[0], self.world.setting.in_flight
        if not first.is_in_flight and first.deadline_ms <= now.monotonic_ms:
            self._give_up(first)
            return
        for batch in batches[:limit]:
            if batch.is_in_flight:
                continue
            is_retry = bool(batch.data)
            if batch.retry_at_ms > now.monotonic_ms or (is_retry and batch is not first):
                return
            batch.retry_at_ms = now.monotonic_ms + RETRY_MS
            self._send(batch, now)
            if not batch.is_in_flight:
                return
        if len(batches) > limit > 1:
            self.world.saw("producer waits for its requests in flight")

    def _request_id(self, now: Now) -> None:
        if self._awaits_id or self._retry_id_at_ms > now.monotonic_ms:
            return
        self._awaits_id = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        broker = self.some_broker()
        self.send_request(broker, ApiKey.INIT_PRODUCER_ID, request, REQUEST_MS, self._on_id)

    def _on_id(self, response: Any, now: Now) -> None:
        self._awaits_id = False
        self._retry_id_at_ms = now.monotonic_ms + RETRY_MS
        if response is not None and not response.error_code:
            self._producer_id = response.producer_id
            self._sequences.clear()

    def _send(self, batch: Batch, now: Now) -> None:
        leader = self.leader_of(batch.key, now)
        if leader < 0 or (self.is_idempotent and not batch.data and not self._has_id()):
            return
        if not batch.data:
            self._prepare(batch, now)
        topic_id, index = batch.key
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=REQUEST_MS,
            topic_data=[
                TopicProduceData(
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=batch.data)],
                )
            ],
        )
        batch.is_in_flight = True
        self.send_request(
            leader,
            ApiKey.PRODUCE,
            request,
            REQUEST_MS,
            lambda response, now: self._on_response(batch, leader, response, now),
        )

    def _has_id(self) -> bool:
        return self._producer_id != NO_PRODUCER

    def _prepare(self, batch: Batch, now: Now) -> None:
        batch.number = self._sent[batch.key] = self._sent.get(batch.key, 0) + 1
        idempotence: dict[str, int] = {}
        if self.is_idempotent:
            batch.producer_id = self._producer_id
            batch.sequence = self._sequences.get(batch.key, 0)
            self._sequences[batch.key] = batch.sequence + len(batch.values)
            idempotence = {
                "producer_id": batch.producer_id,
                "producer_epoch": 0,
                "base_sequence": batch.sequence,
            }
        builder = BatchBuilder(**idempotence)  # type: ignore[arg-type]  # all are numbers
        for value in batch.values:
            builder.append(now.wall_ms, None, str(value).encode())
            self.world.history.sent(
                Write(
                    value,
                    (self.name, batch.producer_id),
                    batch.key,
                    self.is_idempotent,
                    self.acks == ACKS_ALL,
                )
            )
        batch.data = builder.build()

    # Outcomes ------------------------------------------------------------------------------------

    def _on_response(self, batch: Batch, leader: int, response: Any, now: Now) -> None:
        batch.is_in_flight = False
        batch.retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is None:
            batch.is_uncertain = True
            self.refresh_soon(now)
            self._maybe_give_up(batch)
            return
        partition = response.responses[0].partition_responses[0]
        code = partition.error_code
        self.world.count_response("produce", code)
        if not code:
            self._acknowledged(batch, partition.base_offset, now)
        elif code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._acknowledged(batch, UNKNOWN_OFFSET, now)
        elif code in RETRIABLE:
            batch.is_uncertain |= code not in _NOT_APPENDED
            current = partition.current_leader
            self.learn(batch.key, current.leader_id, current.leader_epoch)
            self.refresh_soon(now)
            self._maybe_give_up(batch)
        elif code in _UNKNOWN_PRODUCER and self.world.has_lost_records(batch.key):
            self.world.saw("producer of lost records")
            batch.is_uncertain = True
            self._give_up(batch)
        elif code in _UNKNOWN_PRODUCER and self._lacks_predecessor(batch):
            self.world.saw("batch arrived before an earlier one")
        elif code in _UNKNOWN_PRODUCER and self._is_forgotten(batch):
            self.world.saw("repeated batch too old to be recognised")
            self._give_up(batch)
        elif code in _UNKNOWN_PRODUCER and self._is_out_of_order(batch):
            self.world.saw("batch given up after an earlier one")
            self._give_up(batch)
        else:
            raise Violation(
                "producer", f"{self} got error {code} from node {leader} for {batch.key}"
            )

    def _lacks_predecessor(self, batch: Batch) -> bool:
        """Whether an earlier batch is not done: then this one is sent again after it."""
        batches = self._batches[batch.key]
        earlier = batches[: batches.index(batch)]
        return any(each.producer_id == batch.producer_id for each in earlier)

    def _is_forgotten(self, batch: Batch) -> bool:
        """Whether an attempt may be in the log, but before the batches that a leader remembers.

        While a batch is repeated, later ones are acknowledged and others follow them, as with
        Kafka's producer.
        """
        return batch.is_uncertain and self._sent[batch.key] - batch.number >= RETAINED_BATCHES

    def _is_out_of_order(self, batch: Batch) -> bool:
        """Whether an earlier batch was given up, or a later one may have taken its place.

        A log that was opened after the producer began takes any sequence number first: the later
        batch may go to a new leader while an earlier one is refused by the former leader.
        """
        known_from = self._known_from.get(self._known_key(batch))
        is_first = known_from is None or known_from > batch.sequence
        is_overtaken = known_from is not None or any(
            later.producer_id == batch.producer_id for later in self._batches[batch.key][1:]
        )
        has_gap = self._given_up.get(batch.key) == batch.producer_id
        return has_gap or (is_first and is_overtaken) or self._was_added_again(batch)

    def _was_added_again(self, batch: Batch) -> bool:
        """Whether the partition was removed and added: a late request may begin its new log."""
        return any(
            (key, producer_id) == (batch.key, batch.producer_id)
            and epoch != self.world.first_epoch(batch.key, NEWEST)
            for key, epoch, producer_id in self._known_from
        )

    def _known_key(self, batch: Batch) -> tuple[PartitionKey, int, int]:
        return batch.key, self.world.first_epoch(batch.key, NEWEST), batch.producer_id

    def _acknowledged(self, batch: Batch, base_offset: int, now: Now) -> None:
        world = self.world
        for number, value in enumerate(batch.values):
            offset = UNKNOWN_OFFSET if base_offset < 0 else base_offset + number
            world.acknowledged(self, batch.key, value, offset)
        known_key = self._known_key(batch)
        known_from = self._known_from.get(known_key, batch.sequence)
        self._known_from[known_key] = min(known_from, batch.sequence)
        self._finish(batch)
        self.work(now)

    def _maybe_give_up(self, batch: Batch) -> None:
        """Without idempotence, give up half of the batches that a retry may write a second time."""
        if batch.is_uncertain and not self.is_idempotent and self.rng.below(2):
            self._give_up(batch)

    def _give_up(self, batch: Batch) -> None:
        if batch.data and not batch.is_uncertain:
            for value in batch.values:
                self.world.refused(value)
        if batch.data:
            self._given_up[batch.key] = batch.producer_id
        if batch.data and self._producer_id == batch.producer_id:
            self._producer_id = NO_PRODUCER  # the next batch would leave a gap in the sequence
        self._finish(batch)

    def _finish(self, batch: Batch) -> None:
        batches = self._batches[batch.key]
        batches.remove(batch)
        if not batches:
            del self._batches[batch.key]
        self.world.progress += 1
        self.world.operations += 1
