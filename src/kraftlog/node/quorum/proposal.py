"""`Proposal`: records on their way into the metadata log, encoded and read back.

There is no other way into the log than as a Proposal, and making one changes nothing. What it
holds is what every node will replay: the records as they were read back, not as they were decided.
"""

from __future__ import annotations

from kraftlog.metadata.versions import record_version
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import metadata_read_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.wire.schema import Message


class Proposal:
    """Records that belong into one batch: `values` are the bytes of `records`."""

    __slots__ = ("records", "size_bytes", "values")

    def __init__(self, records: Sequence[Message]) -> None:
        """Raises UnwritableError when one of them does not fit."""
        self.values: list[bytes] = []
        self.records: list[Message] = []
        for record in records:
            value, read = metadata_read_back(record, record_version(record))
            self.values.append(value)
            self.records.append(read)
        self.size_bytes = sum(map(len, self.values))

    def __len__(self) -> int:
        return len(self.values)
