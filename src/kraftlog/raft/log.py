"""The metadata of the log that the core needs: offsets, epochs and voters, but no records."""

from __future__ import annotations

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import VoterHistory, VoterSet
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch


class RaftLog:
    """The metadata of the log; everything before `flushed` survives a crash."""

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
        #: The snapshot that ends where the log starts, if the log does not start at 0.
        self.snapshot = snapshot
        #: The snapshot that the host is installing in place of this log. Nothing may be appended
        #: before that is done: it would be lost, or would follow the wrong records.
        self.installing: OffsetAndEpoch | None = None
        #: The high watermark that this replica knows.
        self.high_watermark = high_watermark
        if snapshot is not None:
            self.start = snapshot.offset
            self.high_watermark = max(high_watermark, snapshot.offset)
            self._keep_snapshot_epoch()

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or 0 if the log is empty."""
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
        """Truncate to `end`; return whether that changed the voter set in force."""
        assert end >= self.high_watermark, (
            f"truncating to {end} would remove committed records: the high watermark is "
            f"{self.high_watermark}. If the quorum has been repaired with the log of another node, "
            "start this node again: it then follows that log"
        )
        self.end = end
        self.flushed = min(self.flushed, end)
        self.epochs.truncate_from_end(end)
        self._keep_snapshot_epoch()
        return self.voters.truncate(end)

    def _keep_snapshot_epoch(self) -> None:
        """Give a log without records the epoch of its snapshot (Q12, Q38).

        With an older epoch, this replica would vote for logs that lack what the snapshot holds.
        """
        if self.snapshot is not None and not self.epochs.epochs:
            self.epochs.assign(self.snapshot.epoch, self.snapshot.offset)

    def drop_prefix(self, end: OffsetAndEpoch) -> None:
        """Drop everything before `end`, which a snapshot covers."""
        self.snapshot = end
        self.start = end.offset
        self.epochs.truncate_from_start(end.offset)
        self.voters.trim(end.offset)

    def replace_with_snapshot(self, end: OffsetAndEpoch, voters: VoterSet) -> None:
        """Replace the whole log by a snapshot."""
        self.snapshot = end
        self.installing = None
        self.start = self.end = self.flushed = end.offset
        self.high_watermark = max(self.high_watermark, end.offset)
        self.epochs.clear()
        self._keep_snapshot_epoch()
        self.voters = VoterHistory(voters)

    def divergence(self, offset: int, last_epoch: int) -> OffsetAndEpoch | None:
        """The point where a fetcher's log at (offset, epoch) diverges from this one, or None.

        The fetcher's log does not diverge if it ends within `last_epoch` in this log, or at the end
        of that epoch (Q19). It is not compared if it ends where this log starts, or if `last_epoch`
        is unknown (-1).
        """
        if last_epoch < 0 or offset == self.start:
            return None
        common = self.end_of_epoch(last_epoch)
        if common.epoch == last_epoch and offset <= common.offset:
            return None
        return common

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch up to `epoch` and its end offset, or the start of the log."""
        latest = self.epochs.latest
        if latest < 0:
            return OffsetAndEpoch(self.start, 0)
        if epoch >= latest:
            return OffsetAndEpoch(self.end, latest)
        found_epoch, end = self.epochs.end_offset_for(epoch, self.end)
        return OffsetAndEpoch(end, found_epoch)

    def is_covered_by(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log with this end is at least as up to date as this one (Q12)."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.end)

    def key(self) -> tuple[object, ...]:
        """The state for comparison."""
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
