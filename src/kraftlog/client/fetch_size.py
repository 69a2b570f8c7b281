"""How many bytes a reader of a range requests, so that a broker sends little beyond the range."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.records.header import BatchHeader


class FetchSize:
    """Estimates the bytes of the rest of a range from the newest response, up to `max_bytes`.

    Readers of one topic may share it. Before the first response the estimate is `max_bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes_per_offset = 0.0
        self._batch_margin = 0

    def learn(self, batches: Sequence[BatchHeader]) -> None:
        """Take the bytes per offset, and the size of the largest batch, from a response."""
        if batches:
            offsets = batches[-1].next_offset - batches[0].base_offset
            self._bytes_per_offset = sum(each.size for each in batches) / offsets
            # A range may begin and end within batches, which brokers send as a whole.
            self._batch_margin = 2 * max(each.size for each in batches)

    def for_offsets(self, offsets: int) -> int:
        """How many bytes to request if this many offsets are left."""
        if not self._batch_margin:
            return self.max_bytes
        return min(self.max_bytes, int(offsets * self._bytes_per_offset) + self._batch_margin)
