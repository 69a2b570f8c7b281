"""A replica's disk as the quorum uses it, and what would survive a power loss."""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.raft.messages import ElectionState
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch
    from kraftlog.types import OffsetAndEpoch
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.snapshot import Snapshot


class RaftDisk:
    """A log and an election state; the first `durable` of the `batches` are synced.

    Each batch has a chain, a number for the whole log up to it (see `checkers/oracle`).

    The first `dropped` batches are only in the snapshot: no reader sees them, they are kept for
    comparing logs. `from_later_leader` has the chains of batches that were received from the leader
    of a later epoch than the batch's own. `old_tail` is the end of the log that an unsynced
    truncation removed; a power loss may bring it back.
    """

    __slots__ = (
        "bases",
        "batches",
        "chains",
        "cluster_id",
        "download",
        "dropped",
        "durable",
        "election",
        "from_later_leader",
        "old_tail",
        "snapshot",
        "truncations",
    )

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.bases: list[int] = []
        self.chains: list[int] = []
        self.from_later_leader: set[int] = set()
        self.durable = 0
        self.old_tail: list[tuple[Batch, int]] = []
        #: Counts truncations: a sync that began before one does not cover later appends.
        self.truncations = 0
        self.election = ElectionState()
        #: As in `meta.properties`; None until it is known (Q29).
        self.cluster_id: str | None = None
        self.dropped = 0
        #: The newest complete and durable snapshot, and the one that is being fetched.
        self.snapshot: Snapshot | None = None
        self.download: tuple[OffsetAndEpoch, bytes] | None = None

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.batches[self.dropped - 1].last_offset + 1 if self.dropped else 0

    @property
    def durable_end(self) -> int:
        return self.batches[self.durable - 1].last_offset + 1 if self.durable else 0

    def append(self, batch: Batch, chain: int) -> None:
        self.batches.append(batch)
        self.bases.append(batch.base_offset)
        self.chains.append(chain)

    def truncate(self, offset: int) -> int:
        """Truncate to `offset`; return how many batches were removed."""
        kept = bisect_left(self.bases, offset)
        removed = len(self.bases) - kept
        if kept < self.durable:
            synced = zip(
                self.batches[kept : self.durable], self.chains[kept : self.durable], strict=True
            )
            self.old_tail[:0] = synced
            self.durable = kept
        self._remove_after(kept)
        self.truncations += 1
        return removed

    def sync(self, count: int) -> None:
        """The first `count` batches, and every truncation so far, are durable."""
        self.durable = max(self.durable, count)
        self.old_tail.clear()

    def lose_power(self, rng: Rng) -> int:
        """Lose some unsynced changes to the log; return how many unsynced batches were lost.

        Either an unsynced truncation is undone, or a random prefix of the unsynced batches
        survives: a prefix, because recovery truncates the log at a torn batch.
        """
        unsynced = len(self.batches) - self.durable
        if self.old_tail and rng.below(2):
            tail, kept = self.old_tail, self.durable
            self._remove_after(kept)
            for batch, chain in tail:
                self.append(batch, chain)
        else:
            kept = self.durable + rng.below(unsynced + 1)
            self._remove_after(kept)
        self.old_tail = []
        self.truncations += 1
        return self.durable + unsynced - kept

    def roll_back(self, count: int) -> None:
        """Restore an old copy: only the first `count` batches are left."""
        self._remove_after(count)
        self.durable = min(self.durable, count)
        self.old_tail = []
        self.truncations += 1
        if self.snapshot is not None and self.snapshot.id.offset > self.end:
            self.snapshot, self.dropped = None, 0
        self.download = None

    def _remove_after(self, count: int) -> None:
        del self.batches[count:], self.bases[count:], self.chains[count:]

    def between(self, offset: int, limit: int, max_batches: int) -> tuple[Batch, ...]:
        """At most `max_batches` batches from `offset` on that begin before `limit`."""
        first = bisect_left(self.bases, offset)
        if first < self.dropped:
            raise Violation("log start", f"{offset} was read, the log starts at {self.start}")
        last = bisect_left(self.bases, limit, first, min(first + max_batches, len(self.bases)))
        return tuple(self.batches[first:last])

    def position_before(self, offset: int) -> int:
        """The position of the batch that ends at `offset`, or -1 at the start of the log."""
        return bisect_left(self.bases, offset) - 1

    # Snapshots -------------------------------------------------------------------------------

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a complete snapshot, unless there is a newer one; delete an older one."""
        if self.snapshot is None or snapshot.id.offset > self.snapshot.id.offset:
            self.snapshot = snapshot

    def reaches(self, end: OffsetAndEpoch) -> bool:
        """Whether the log has the last record before a snapshot's end."""
        position = self.position_before(end.offset)
        return self.end >= end.offset and self.batches[position].epoch == end.epoch

    def drop_prefix(self, offset: int) -> None:
        self.dropped = max(self.dropped, bisect_left(self.bases, offset))

    def replace_log(self, snapshot: Snapshot, batches: list[Batch], chains: list[int]) -> None:
        """Replace the log by a snapshot, which stands for these batches."""
        self.batches, self.chains = batches, chains
        self.bases = [batch.base_offset for batch in batches]
        assert self.end == snapshot.id.offset, (
            "a snapshot contains the records before its end offset"
        )
        self.dropped = self.durable = len(batches)
        self.old_tail = []
        self.truncations += 1
