"""Proposals of a turn on their way to become one batch: one write, one sync, one message to each
follower for all of them."""

from __future__ import annotations

from kraftlog.node.quorum.batches import records_batch
from kraftlog.node.quorum.proposal import GATHERED_BYTES
from kraftlog.records.header import HEADER_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.quorum.proposal import Proposal
    from kraftlog.records.builder import BatchBuilder
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Gets the code of what became of a proposal.
    OnDone = Callable[[int, Now], None]

#: The most that a record adds to its value: lengths, attributes, deltas and counts.
RECORD_OVERHEAD = 24


def largest_batch(count: int, size_bytes: int) -> int:
    """No batch of so many records, with values of this size together, is larger."""
    return HEADER_SIZE + count * RECORD_OVERHEAD + size_bytes


class EncodedBatch:
    """A batch of proposals: its bytes, and the records that were read back from them."""

    __slots__ = ("data", "records")

    def __init__(self, data: bytearray, records: list[Message]) -> None:
        self.data = data
        self.records = records


class ProposalBatch:
    """Encoded records that are proposed and not in the log yet, and whom to tell of them."""

    __slots__ = ("_batch", "_values", "askers", "records", "size_bytes")

    def __init__(self) -> None:
        self._values: list[bytes] = []
        #: One that is too large to be joined by others comes with its own.
        self._batch: BatchBuilder | None = None
        self.records: list[Message] = []
        self.size_bytes = 0
        self.askers: list[OnDone] = []

    def __len__(self) -> int:
        return len(self._values)

    def has_room(self, size_bytes: int) -> bool:
        return self.size_bytes + size_bytes <= GATHERED_BYTES

    def add(self, proposal: Proposal, on_done: OnDone) -> None:
        self._values += proposal.values
        self._batch = proposal.batch
        self.records += proposal.records
        self.size_bytes += proposal.size_bytes
        self.askers.append(on_done)

    def batch(self, timestamp_ms: int) -> bytearray:
        """All of them; a core gives it its place."""
        if self._batch is not None:
            return bytearray(self._batch.build())
        return records_batch(self._values, timestamp_ms)
