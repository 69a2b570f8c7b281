"""What is committed in a partition, by the high watermarks of all its leaders so far."""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.simulator.cluster.replica_logs import ReplicaLog, StoredBatch

ANY_EPOCH = 1 << 31


class CommittedLog:
    """The committed batches of a partition: those below the highest `high_watermark` of any leader.

    `committed_in` has the leader epoch in which each was committed.
    """

    __slots__ = ("bases", "batches", "committed_in", "high_watermark", "leaders", "values")

    def __init__(self) -> None:
        self.high_watermark = 0
        self.batches: list[StoredBatch] = []
        self.bases: list[int] = []
        self.committed_in: list[int] = []
        self.values: dict[int, int] = {}
        #: The leader of each epoch: node and incarnation.
        self.leaders: dict[int, tuple[int, int]] = {}

    def extend(self, log: ReplicaLog, mark: int, epoch: int) -> None:
        """A leader's high watermark has passed the known one."""
        for batch in log.between(self.high_watermark, mark):
            self.batches.append(batch)
            self.bases.append(batch.base)
            self.committed_in.append(epoch)
            self.values.update(batch.values)
        self.high_watermark = mark

    def missing_in(
        self, log: ReplicaLog, start: int = 0, before_epoch: int = ANY_EPOCH
    ) -> StoredBatch | None:
        """The first committed batch, from an offset on, that a log lacks or has differently;
        among those committed before a leader epoch."""
        for position in range(bisect_left(self.bases, max(start, log.start)), len(self.batches)):
            batch = self.batches[position]
            if log.batch_at(batch.base) != batch and self.committed_in[position] < before_epoch:
                return batch
        return None
