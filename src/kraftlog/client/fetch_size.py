"""How many bytes a reader of a range asks for, so that a broker does not send what nobody reads."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.records.header import BatchHeader


class FetchSize:
    """At most `most` bytes, and about what the rest of a range has by the newest response.

    It may be shared by readers of one topic; before the first response it is `most`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._bytes_per_offset = 0.0
        self._spare = 0

    def note(self, batches: Sequence[BatchHeader]) -> None:
        """A response had these batches."""
        if batches:
            offsets = batches[-1].next_offset - batches[0].base_offset
            self._bytes_per_offset = sum(each.size for each in batches) / offsets
            # A range begins and ends within batches, and these are sent as a whole.
            self._spare = 2 * max(each.size for each in batches)

    def of(self, offsets: int) -> int:
        """Bytes to ask for if this many offsets are left."""
        if not self._spare:
            return self.most
        return min(self.most, int(offsets * self._bytes_per_offset) + self._spare)
