"""Up to where a partition's log is of which leader epoch."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.logs import LogReader
    from kraftlog.replication.partition import Partition

#: No epoch, and so no end.
NO_EPOCH = -1, -1


def end_of_epoch(logs: LogReader, partition: Partition, epoch: int) -> tuple[int, int]:
    """The newest epoch with records that is not above this one, and where it ends; else -1, -1.

    The leader's own epoch is known also before it has written; one yet to come is not.
    """
    if epoch < 0 or epoch > partition.leader_epoch:
        return NO_EPOCH
    if epoch == partition.leader_epoch:
        return epoch, partition.written_end
    return logs.end_of_epoch(partition.log, epoch)
