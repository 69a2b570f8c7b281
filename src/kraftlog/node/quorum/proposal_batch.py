"""`ProposalBatch`: the proposals of a turn as one batch, with one write and one flush."""

from __future__ import annotations

from kraftlog.node.quorum.batches import records_batch
from kraftlog.node.quorum.proposal import BATCH_BYTES
from kraftlog.records.header import HEADER_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.quorum.proposal import Proposal
    from kraftlog.records.builder import BatchBuilder
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Called with the error code of a proposal's outcome.
    OnDone = Callable[[int, Now], None]

#: Maximum overhead of a record: lengths, attributes, deltas and counts.
RECORD_OVERHEAD = 24


def largest_batch(count: int, size_bytes: int) -> int:
    """Upper bound of the size of a batch with `count` records and `size_bytes` of values."""
    return HEADER_SIZE + count * RECORD_OVERHEAD + size_bytes


class EncodedBatch:
    """The bytes of a batch, and the records as read back from them."""

    __slots__ = ("data", "records")

    def __init__(self, data: bytearray, records: list[Message]) -> None:
        self.data = data
        self.records = records


class ProposalBatch:
    """Encoded records that are proposed and not yet appended, and the callbacks."""

    __slots__ = ("_batch", "_values", "callbacks", "records", "size_bytes")

    def __init__(self) -> None:
        self._values: list[bytes] = []
        #: The prebuilt batch of a large proposal, which no other joins.
        self._batch: BatchBuilder | None = None
        self.records: list[Message] = []
        self.size_bytes = 0
        self.callbacks: list[OnDone] = []

    def __len__(self) -> int:
        return len(self._values)

    def has_room(self, size_bytes: int) -> bool:
        return self.size_bytes + size_bytes <= BATCH_BYTES

    def add(self, proposal: Proposal, on_done: OnDone) -> None:
        self._values += proposal.values
        self._batch = proposal.batch
        self.records += proposal.records
        self.size_bytes += proposal.size_bytes
        self.callbacks.append(on_done)

    def batch(self, timestamp_ms: int) -> bytearray:
        """All records as one batch; the core assigns its offset."""
        if self._batch is not None:
            return bytearray(self._batch.build())
        return records_batch(self._values, timestamp_ms)
