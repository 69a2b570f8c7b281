"""How many bytes a reader of a range requests, so that a broker sends little beyond the range."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.records.header import BatchHeader


class FetchSize:
    """At most `most` bytes: about the size of the rest of a range, by the newest response.

    It may be shared by readers of one topic; before the first response it is `most`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._bytes_per_offset = 0.0
        self._spare = 0

    def learn(self, batches: Sequence[BatchHeader]) -> None:
        """Learn from the batches of a response."""
        if batches:
            offsets = batches[-1].next_offset - batches[0].base_offset
            self._bytes_per_offset = sum(each.size for each in batches) / offsets
            # A range begins and ends within batches, and these are sent as a whole.
            self._spare = 2 * max(each.size for each in batches)

    def for_offsets(self, offsets: int) -> int:
        """How many bytes to request if this many offsets are left."""
        if not self._spare:
            return self.most
        return min(self.most, int(offsets * self._bytes_per_offset) + self._spare)
