"""I9: offsets and epochs ascend, committed batches stay, and the core knows the log on the disk.

Source: Q7, Q19; Kafka's log and epoch cache.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.raft_disk import RaftDisk


def epochs_in(disk: RaftDisk, start: int) -> list[tuple[int, int]]:
    """The epochs of the log and their start offsets; without records, the epoch of its snapshot."""
    entries: list[tuple[int, int]] = []
    position = disk.position_before(start)
    for batch in disk.batches[position + 1 :]:
        if not entries or batch.epoch > entries[-1][0]:
            entries.append((batch.epoch, batch.base_offset))
    if not entries and position >= 0:
        entries.append((disk.batches[position].epoch, start))
    return entries


class LogShape(Invariant):
    name = "log shape"

    def on_append(self, replica: Replica, batch: Batch) -> None:
        batches = replica.disk.batches
        end, epoch = 0, 0
        if len(batches) > 1:
            end, epoch = batches[-2].last_offset + 1, batches[-2].epoch
        if not (batch.base_offset == end and batch.last_offset >= end and batch.epoch >= epoch):
            self.fail(f"replica {replica.id} appended {batch} after offset {end} of epoch {epoch}")

    def on_truncate(self, replica: Replica, offset: int) -> None:
        committed = max(replica.seen_high_watermark, replica.applied)
        if offset < committed:
            self.fail(f"replica {replica.id} truncated its log to {offset}, below {committed}")

    def on_full_check(self) -> None:
        for replica in self.world.running:
            core, disk = replica.core, replica.disk
            assert core is not None
            log = core.log
            if log.end != disk.end:
                self.fail(
                    f"replica {replica.id} has log end {log.end} in memory, {disk.end} on the disk"
                )
            if log.flushed > disk.durable_end:
                self.fail(
                    f"replica {replica.id} counts {log.flushed} as flushed, "
                    f"durable is {disk.durable_end}"
                )
            scan = epochs_in(disk, log.start)
            if log.epochs.entries() != scan:
                self.fail(
                    f"replica {replica.id} has epochs {log.epochs.entries()}, a scan gives {scan}"
                )
