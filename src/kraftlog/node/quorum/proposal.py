"""`Proposal`: records on their way into the metadata log, encoded and read back.

There is no other way into the log than as a Proposal, and making one changes nothing. What it
holds is what every node will replay: the records as they were read back, not as they were decided.
"""

from __future__ import annotations

from kraftlog.metadata.versions import record_version
from kraftlog.records.builder import BatchBuilder
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import metadata_read_back

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from kraftlog.wire.schema import Message

#: Proposals of a turn become one batch as long as it is no larger than this.
GATHERED_BYTES = 64 << 10
#: What it costs to encode a record and read it back, and to put it into a batch, in microseconds.
A_RECORD_COSTS, BUILDING_COSTS = 8, 2


class Proposal:
    """Records that belong into one batch: `values` are the bytes of `records`."""

    __slots__ = ("batch", "records", "size_bytes", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.records: list[Message] = []
        self.size_bytes = 0
        #: The batch of a large proposal, built in steps; None for those that others may join.
        self.batch: BatchBuilder | None = None

    @classmethod
    def making(
        cls, records: Iterable[Message], timestamp_ms: int
    ) -> Generator[int, None, Proposal]:
        """Encode records and read them back, in steps; UnwritableError if one does not fit."""
        proposal = cls()
        for record in records:
            value, read = metadata_read_back(record, record_version(record))
            proposal.values.append(value)
            proposal.records.append(read)
            proposal.size_bytes += len(value)
            yield A_RECORD_COSTS
        if proposal.size_bytes > GATHERED_BYTES:
            builder = BatchBuilder()
            for value in proposal.values:
                builder.append(timestamp_ms, None, value)
                yield BUILDING_COSTS
            proposal.batch = builder
        return proposal

    def __len__(self) -> int:
        return len(self.values)
