"""End offsets of leader epochs."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.logs import LogReader
    from kraftlog.replication.partition import Partition

#: No epoch and no end offset.
NO_EPOCH = -1, -1


def end_of_epoch(logs: LogReader, partition: Partition, epoch: int) -> tuple[int, int]:
    """The largest epoch <= `epoch` with records, and its end offset; else -1, -1.

    The leader's own epoch counts even without records; a later one is unknown. In an empty log an
    earlier epoch ends where the leader's own begins.
    """
    if epoch < 0 or epoch > partition.leader_epoch:
        return NO_EPOCH
    if epoch == partition.leader_epoch:
        return epoch, partition.written_end
    if partition.start == partition.written_end:
        return epoch, partition.written_end
    return logs.end_of_epoch(partition.log, epoch)
