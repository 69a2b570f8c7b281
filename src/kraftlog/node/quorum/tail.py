"""`Tail`: appended batches that are not applied, in memory so that they need not be read back."""

from __future__ import annotations

from collections import deque

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Message

    #: A batch as bytes, and its decoded records if this node has proposed them.
    Piece = tuple[Buffer, list[Message] | None]


class Tail:
    """The end of the log, in order. Batches that this node has proposed have their records, too."""

    def __init__(self) -> None:
        #: Base offset, last offset, bytes, records or None.
        self._batches: deque[tuple[int, int, bytes, list[Message] | None]] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def start(self) -> int:
        """The base offset of the first batch; the tail must not be empty."""
        return self._batches[0][0]

    def append(
        self, base: int, last: int, data: bytes, records: list[Message] | None = None
    ) -> None:
        self._batches.append((base, last, data, records))

    def truncate(self, offset: int) -> None:
        while self._batches and self._batches[-1][1] >= offset:
            self._batches.pop()

    def clear(self) -> None:
        self._batches.clear()

    def take(self, applied: int, committed: int, max_pieces: int) -> tuple[list[Piece], int]:
        """Take up to `max_pieces` committed batches; returns them and their end offset."""
        pieces: list[Piece] = []
        end = applied
        batches = self._batches
        while len(pieces) < max_pieces and batches and batches[0][1] < committed:
            base, last, data, records = batches.popleft()
            if last >= end:
                assert base == end, f"records from {end} to {base} are missing"
                pieces.append((data, records))
                end = last + 1
        return pieces, end
