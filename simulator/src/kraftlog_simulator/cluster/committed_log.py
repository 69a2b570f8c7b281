"""The committed batches of a partition, by the high watermarks of all its leaders so far."""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog_simulator.cluster.replica_logs import ReplicaLog, StoredBatch

#: Higher than all leader epochs.
ANY_EPOCH = 1 << 31


class CommittedLog:
    """The committed batches of a partition: those below the highest `high_watermark` of any leader.

    `committed_in` has the leader epoch in which each batch was committed, `confirmed` by broker the
    offset up to which it has confirmed committed batches and kept them since (V19).
    """

    __slots__ = (
        "bases",
        "batches",
        "committed_in",
        "confirmed",
        "deleted_before",
        "high_watermark",
        "leaders",
        "values",
    )

    def __init__(self) -> None:
        self.high_watermark = 0
        #: The offset before which leaders have deleted the records.
        self.deleted_before = 0
        self.confirmed: dict[int, int] = {}
        self.batches: list[StoredBatch] = []
        self.bases: list[int] = []
        self.committed_in: list[int] = []
        #: By offset: the committed value.
        self.values: dict[int, int] = {}
        #: The leader of each epoch: node and incarnation.
        self.leaders: dict[int, tuple[int, int]] = {}

    def extend(self, log: ReplicaLog, high_watermark: int, epoch: int) -> None:
        """Add the batches of a leader's log below its high watermark, the highest so far."""
        for batch in log.between(self.high_watermark, high_watermark):
            self.batches.append(batch)
            self.bases.append(batch.base)
            self.committed_in.append(epoch)
            self.values.update(batch.values)
        self.high_watermark = high_watermark

    def delete_before(self, start: int) -> None:
        """A leader's log starts there: `DeletesOnlyRequested` checks that clients requested it."""
        self.deleted_before = max(self.deleted_before, start)

    def forget_from(self, offset: int, start: int) -> None:
        """Batches from an offset on are lost, and so is all before `start`."""
        position = bisect_left(self.bases, offset)
        for batch in self.batches[position:]:
            for batch_offset, _ in batch.values:
                self.values.pop(batch_offset, None)
        del self.batches[position:], self.bases[position:], self.committed_in[position:]
        self.high_watermark = min(self.high_watermark, offset)
        self.delete_before(start)
        self.confirmed = {broker: min(end, offset) for broker, end in self.confirmed.items()}

    def missing_in(
        self, log: ReplicaLog, start: int = 0, before_epoch: int = ANY_EPOCH
    ) -> StoredBatch | None:
        """The first committed batch from `start` on that a log lacks or has differently.

        A log may lack what leaders have deleted, if it starts later; if it starts within a batch,
        it begins with the whole batch. Batches that were committed in `before_epoch` or later are
        ignored.
        """
        first = max(start, min(log.start, self.deleted_before))
        begin = bisect_left(self.bases, first)
        if begin and self.batches[begin - 1].end > first:
            begin -= 1
        for position in range(begin, len(self.batches)):
            batch = self.batches[position]
            if log.batch_at(batch.base) != batch and self.committed_in[position] < before_epoch:
                return batch
        return None
