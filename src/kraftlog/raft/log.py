"""The log as the core sees it: ends, epochs, voters; no bytes."""

from __future__ import annotations

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch


class RaftLog:
    """What is known of the log without reading it. `flushed` is what would survive a crash."""

    __slots__ = (
        "end",
        "epochs",
        "flushed",
        "high_watermark",
        "installing",
        "snapshot",
        "start",
        "voters",
    )

    def __init__(
        self,
        voters: VoterHistory,
        start: int = 0,
        end: int = 0,
        epochs: EpochCache | None = None,
        high_watermark: int = 0,
        snapshot: OffsetAndEpoch | None = None,
    ) -> None:
        self.voters = voters
        self.start = start
        self.end = end
        self.flushed = end
        self.epochs = epochs or EpochCache()
        #: The snapshot that the log starts behind, if it does not start at 0.
        self.snapshot = snapshot
        #: The snapshot that the host is putting in place of this log: until that is done, nothing
        #: may be appended, as it would be lost or stand behind the wrong records.
        self.installing: OffsetAndEpoch | None = None
        #: What this replica knows to be committed.
        self.high_watermark = high_watermark
        if snapshot is not None:
            self.start = snapshot.offset
            self.high_watermark = max(high_watermark, snapshot.offset)
            self._keep_an_epoch()

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 in an empty log."""
        return max(self.epochs.latest, 0)

    @property
    def voter_set(self) -> VoterSet:
        return self.voters.latest

    def append(self, batch: Batch) -> None:
        latest = self.epochs.latest
        assert batch.base_offset == self.end, "batches follow each other"
        assert batch.epoch >= latest, "epochs only grow"
        if batch.epoch > latest:
            self.epochs.assign(batch.epoch, batch.base_offset)
        self.end = batch.last_offset + 1
        if batch.voters is not None:
            self.voters.append(batch.base_offset, batch.voters)

    def truncate(self, end: int) -> bool:
        """Cut at `end`; whether another voter set is in force now."""
        assert end >= self.high_watermark, (
            f"truncating to {end} would remove committed records: the high watermark is "
            f"{self.high_watermark}"
        )
        self.end = end
        self.flushed = min(self.flushed, end)
        self.epochs.truncate_from_end(end)
        self._keep_an_epoch()
        return self.voters.truncate(end)

    def _keep_an_epoch(self) -> None:
        """A log without records is in the epoch of its snapshot, or it would seem older than it is
        and vote for logs that lack what the snapshot holds (Q12, Q38)."""
        if self.snapshot is not None and not self.epochs.epochs:
            self.epochs.assign(self.snapshot.epoch, self.snapshot.offset)

    def drop_prefix(self, end: OffsetAndEpoch) -> None:
        """A snapshot holds everything before `end`."""
        self.snapshot = end
        self.start = end.offset
        self.epochs.truncate_from_start(end.offset)
        self.voters.trim(end.offset)

    def start_at(self, end: OffsetAndEpoch, voters: VoterSet) -> None:
        """A snapshot has taken the place of everything."""
        self.snapshot = end
        self.installing = None
        self.start = self.end = self.flushed = end.offset
        self.high_watermark = max(self.high_watermark, end.offset)
        self.epochs.clear()
        self._keep_an_epoch()
        self.voters = VoterHistory(voters)

    def divergence(self, offset: int, last_epoch: int) -> OffsetAndEpoch | None:
        """Where the log of a fetcher at (offset, epoch) parts from this one; None if it does not.

        Q19: an offset within the fetcher's last epoch, its end included, is no divergence.
        """
        if last_epoch < 0 or offset == self.start:
            return None
        found = self.end_of_epoch(last_epoch)
        if found.epoch == last_epoch and offset <= found.offset:
            return None
        return found

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above `epoch` and where it ends here; none that old: the start."""
        latest = self.epochs.latest
        if latest < 0:
            return OffsetAndEpoch(self.start, 0)
        if epoch >= latest:
            return OffsetAndEpoch(self.end, latest)
        found, end = self.epochs.end_offset_for(epoch, self.end)
        return OffsetAndEpoch(end, found)

    def is_covered_by(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log with this end is at least as up to date as this one (Q12)."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.end)

    def key(self) -> tuple[object, ...]:
        """What tells two logs apart."""
        return (
            self.start,
            self.end,
            self.flushed,
            self.high_watermark,
            self.installing,
            tuple(self.epochs.epochs),
            tuple(self.epochs.starts),
            tuple([(offset, voters.ids, voters.targets) for offset, voters in self.voters.entries]),
        )

    def copy(self) -> RaftLog:
        twin = RaftLog.__new__(RaftLog)
        twin.voters = self.voters.copy()
        twin.snapshot = self.snapshot
        twin.installing = self.installing
        twin.start = self.start
        twin.end = self.end
        twin.flushed = self.flushed
        twin.epochs = self.epochs.copy()
        twin.high_watermark = self.high_watermark
        return twin
