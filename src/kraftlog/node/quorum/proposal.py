"""`Proposal`: records for the metadata log, encoded and read back.

Records enter the log only as a Proposal, and creating one has no effects. It has what every node
will replay: the records as decoded from their bytes, not as they were decided.
"""

from __future__ import annotations

from kraftlog.metadata.versions import record_version
from kraftlog.records.builder import BatchBuilder
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import metadata_read_back

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from kraftlog.wire.schema import Message

#: Proposals of a turn become one batch up to this size.
BATCH_BYTES = 64 << 10
#: Costs in microseconds: encoding a record and reading it back, and adding it to a batch.
ENCODE_COST, BUILD_COST = 8, 2


class Proposal:
    """Records for one batch; `values` are the bytes of `records`."""

    __slots__ = ("batch", "records", "size_bytes", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.records: list[Message] = []
        self.size_bytes = 0
        #: The batch of a large proposal, built in steps; None if others may join its batch.
        self.batch: BatchBuilder | None = None

    @classmethod
    def make_in_steps(
        cls, records: Iterable[Message], timestamp_ms: int
    ) -> Generator[int, None, Proposal]:
        """Encode records and read them back, in steps; UnwritableError if one does not fit."""
        proposal = cls()
        for record in records:
            value, read = metadata_read_back(record, record_version(record))
            proposal.values.append(value)
            proposal.records.append(read)
            proposal.size_bytes += len(value)
            yield ENCODE_COST
        if proposal.size_bytes > BATCH_BYTES:
            builder = BatchBuilder()
            for value in proposal.values:
                builder.append(timestamp_ms, None, value)
                yield BUILD_COST
            proposal.batch = builder
        return proposal

    def __len__(self) -> int:
        return len(self.values)
