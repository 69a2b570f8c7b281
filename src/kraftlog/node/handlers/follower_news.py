"""New offsets that a follower must get soon, even if there are no records for it."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.fetch_sessions import SessionPartition
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.wire.messages.fetch import FetchPartition

#: How long a follower with consumers may lack a new high watermark. Under load the response with
#: the next records brings it earlier; one response for each would double the followers' fetches.
NOTIFIED_WITHIN_MS = 5


def is_awaited(manager: ReplicaManager, partition: Partition, part: FetchPartition) -> bool:
    """Whether DeleteRecords waits for the follower to get the new log start offset."""
    return part.log_start_offset < partition.start and partition in manager.deletions


def is_for_consumers(
    manager: ReplicaManager, partition: Partition, known: SessionPartition | None
) -> bool:
    """Whether the follower lacks the high watermark up to which its consumers may read."""
    return (
        manager.selects_by_rack
        and known is not None
        and known.high_watermark != partition.high_watermark
    )
