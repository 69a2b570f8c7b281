"""Leader epochs of a log: for each epoch the offset of its first record.

They give the end of an epoch and the point where two logs diverge, without reading the log. Epochs
and offsets grow strictly: appends assign, truncations remove.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_EPOCH = -1
NO_OFFSET = -1


class EpochCache:
    """The leader epochs of one log, as two lists of equal length."""

    __slots__ = ("epochs", "starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int:
        """The newest epoch that has records, or -1."""
        return self.epochs[-1] if self.epochs else NO_EPOCH

    @property
    def oldest(self) -> int | float:
        """The oldest epoch that has records, or infinity."""
        return self.epochs[0] if self.epochs else float("inf")

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """Start `epoch` at `start`, and drop contradicting entries; return whether it is new."""
        epochs, starts = self.epochs, self.starts
        if epoch < 0 or start < 0:
            raise ValueError(f"epoch {epoch} from offset {start}: neither may be negative")
        if epochs and epochs[-1] == epoch and starts[-1] <= start:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start)
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and its end, as OffsetForLeaderEpoch defines it.

        (-1, -1) for an epoch newer than all. An epoch older than all is returned itself, with the
        start of the oldest known one, because earlier records are deleted.
        """
        if epoch == NO_EPOCH or not self.epochs or epoch > self.epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.epochs[-1]:
            return epoch, log_end
        following = bisect_right(self.epochs, epoch)
        if following == 0:
            return epoch, self.starts[0]
        return self.epochs[following - 1], self.starts[following]

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or -1 if unknown."""
        following = bisect_right(self.starts, offset)
        return self.epochs[following - 1] if following else NO_EPOCH

    def truncate_from_end(self, end: int) -> bool:
        """Drop the epochs that start at or after the new log end; return whether any did."""
        kept = bisect_left(self.starts, end)
        if kept == len(self.starts):
            return False
        del self.epochs[kept:]
        del self.starts[kept:]
        return True

    def truncate_from_start(self, start: int) -> bool:
        """Drop the epochs before the new log start; return whether anything changed."""
        dropped = bisect_right(self.starts, start) - 1
        if dropped < 0 or (dropped == 0 and self.starts[0] == start):
            return False
        del self.epochs[:dropped]
        del self.starts[:dropped]
        self.starts[0] = start
        return True

    def clear(self) -> bool:
        """Remove all entries; return whether there were any."""
        had_entries = bool(self.epochs)
        self.epochs.clear()
        self.starts.clear()
        return had_entries

    def copy(self) -> EpochCache:
        twin = EpochCache()
        twin.epochs = self.epochs[:]
        twin.starts = self.starts[:]
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EpochCache):
            return NotImplemented
        return self.epochs == other.epochs and self.starts == other.starts

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"EpochCache({self.entries()})"
