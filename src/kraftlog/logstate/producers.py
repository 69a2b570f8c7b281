"""The state of a log's idempotent and transactional producers.

For each producer id: its epoch, last five batches, last timestamp, and the start of its open
transaction.
`check` validates a batch as Kafka does; `apply` updates the state for an appended batch: on a
leader after the check, on followers and in recovery without one.

Entries are replaced and never changed, so a copy of the state shares them.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.records.header import BatchHeader

NO_OFFSET = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
#: How many of a producer's last batches are kept to recognize a repeated one, as in Kafka.
RETAINED_BATCHES = 5
#: After this sequence number comes 0.
MAX_SEQUENCE = 0x7FFFFFFF


class RetainedBatch(Value):
    """One of the last batches of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(Value):
    """One producer's state; the newest batch is the last."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[RetainedBatch, ...] = ()
    last_timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = -1
    transaction_start: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def in_transaction(self) -> bool:
        return self.transaction_start != NO_OFFSET


class Marker(Value):
    """A transaction marker: COMMIT or ABORT, and the coordinator's epoch."""

    kind: int
    coordinator_epoch: int


class CompletedTransaction(Value):
    """A transaction that a marker has ended; `last_offset` is the marker's own."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """The producers of one log; only this class changes `entries`."""

    __slots__ = ("entries", "forgotten_below", "ongoing", "unreplicated")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.entries: dict[int, ProducerEntry] = {entry.producer_id: entry for entry in entries}
        #: open transactions: first offset -> producer id, in the order of their offsets
        self.ongoing: dict[int, int] = {
            entry.transaction_start: entry.producer_id
            for entry in sorted(self.entries.values(), key=lambda e: e.transaction_start)
            if entry.in_transaction
        }
        #: ended transactions whose marker is not replicated yet: first offset -> marker's offset
        self.unreplicated: dict[int, int] = {}
        #: Producers with an id from here on are not forgotten: none of them has expired.
        self.forgotten_below = 0

    # -- checking ------------------------------------------------------------------------------

    def check(self, header: BatchHeader, known_from: int) -> int:
        """Validate a client's batch: NONE, DUPLICATE_SEQUENCE_NUMBER or an error code.

        Producers with an id from `known_from` on have begun after this log: one that is not known
        starts with sequence 0, or an earlier batch is still to come. Any other may be forgotten,
        and starts with any sequence.
        """
        producer_id, sequence = header.producer_id, header.base_sequence
        entry = self.entries.get(producer_id)
        if entry is None:
            if sequence != 0 and producer_id >= max(known_from, self.forgotten_below):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return ErrorCode.NONE
        epoch = header.producer_epoch
        if epoch == entry.epoch:
            if entry.batches:
                if sequence != (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE:
                    if self.duplicate_of(header) is not None:
                        return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            elif sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        elif sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry.in_transaction and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def duplicate_of(self, header: BatchHeader) -> RetainedBatch | None:
        """The retained batch with the same sequences, for the response to a repeated request."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        for batch in entry.batches:
            if (
                batch.last_sequence == header.last_sequence
                and batch.first_sequence == header.base_sequence
            ):
                return batch
        return None

    # -- applying ------------------------------------------------------------------------------

    def apply(
        self, header: BatchHeader, marker: Marker | None = None
    ) -> CompletedTransaction | None:
        """Update the state for an appended batch; a control batch comes with its marker."""
        if header.is_control:
            return self._end_transaction(header, marker) if marker is not None else None
        producer_id, last_offset = header.producer_id, header.last_offset
        batch = RetainedBatch(
            header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp
        )
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = ProducerEntry(producer_id)
        start = entry.transaction_start
        if header.is_transactional and start == NO_OFFSET:
            start = header.base_offset
            self.ongoing[start] = producer_id
        same_epoch = entry.epoch == header.producer_epoch
        kept = entry.batches[1 - RETAINED_BATCHES :] if same_epoch else ()
        self.entries[producer_id] = ProducerEntry(
            producer_id,
            header.producer_epoch,
            (*kept, batch),
            header.max_timestamp,
            entry.coordinator_epoch,
            start,
        )
        return None

    def put_back(self, before: Mapping[int, ProducerEntry | None]) -> None:
        """Restore earlier entries, because an append has failed; None removes the producer."""
        for producer_id, entry in before.items():
            current = self.entries.pop(producer_id, None)
            if entry is not None:
                self.entries[producer_id] = entry
            began = current.transaction_start if current is not None else NO_OFFSET
            if began != (entry.transaction_start if entry is not None else NO_OFFSET):
                # A client's batch begins a transaction and never ends one.
                self.ongoing.pop(began, None)

    def _end_transaction(self, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        entry = self.entries.get(header.producer_id, ProducerEntry(header.producer_id))
        self.entries[header.producer_id] = ProducerEntry(
            header.producer_id,
            header.producer_epoch,
            entry.batches if entry.epoch == header.producer_epoch else (),
            header.max_timestamp,
            marker.coordinator_epoch,
        )
        if not entry.in_transaction:
            return None
        self.ongoing.pop(entry.transaction_start, None)
        self.unreplicated[entry.transaction_start] = header.base_offset
        return CompletedTransaction(
            header.producer_id,
            entry.transaction_start,
            header.base_offset,
            marker.kind == ControlType.ABORT,
        )

    # -- transactions --------------------------------------------------------------------------

    def first_undecided(self) -> int:
        """The first offset of the oldest open transaction, or -1."""
        return next(iter(self.ongoing), NO_OFFSET)

    def first_unstable(self) -> int:
        """The first offset of the oldest transaction that is open or not yet replicated, or -1."""
        candidates = [*self.unreplicated]
        if self.ongoing:
            candidates.append(self.first_undecided())
        return min(candidates, default=NO_OFFSET)

    def high_watermark_moved(self, high_watermark: int) -> None:
        if self.unreplicated:
            passed = [
                first for first, marker in self.unreplicated.items() if marker < high_watermark
            ]
            for first in passed:
                del self.unreplicated[first]

    def stable_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction counts as ended (for the .txnindex)."""
        for first in self.ongoing:
            if first != completed.first_offset:
                return min(first, completed.last_offset + 1)
        return completed.last_offset + 1

    # -- expiration and copies -----------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Remove producers that have been idle for `expiration_ms`; return their ids."""
        idle = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - entry.last_timestamp >= expiration_ms and not entry.in_transaction
        ]
        for producer_id in idle:
            del self.entries[producer_id]
        if idle:
            self.forgotten_below = max(self.forgotten_below, max(idle) + 1)
        return idle

    def copy(self) -> ProducerState:
        twin = ProducerState()
        twin.entries = dict(self.entries)
        twin.ongoing = dict(self.ongoing)
        twin.unreplicated = dict(self.unreplicated)
        twin.forgotten_below = self.forgotten_below
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerState):
            return NotImplemented
        return (
            self.entries == other.entries
            and self.ongoing == other.ongoing
            and self.unreplicated == other.unreplicated
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ProducerState({list(self.entries.values())})"
