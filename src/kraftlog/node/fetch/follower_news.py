"""New offsets that a follower must get soon, even if there are no new records for it."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.fetch_sessions import SessionPartition
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.wire.messages.fetch import FetchPartition

#: How long a follower with consumers may lack a new high watermark. Under load the response with
#: the next records brings it earlier; a response for each high watermark would double the number
#: of fetches.
NOTIFIED_WITHIN_MS = 5


def is_awaited(manager: ReplicaManager, partition: Partition, part: FetchPartition) -> bool:
    """Whether DeleteRecords waits for the follower to get the new log start offset."""
    return part.log_start_offset < partition.start and partition in manager.deletions


def is_for_consumers(
    manager: ReplicaManager, partition: Partition, session_partition: SessionPartition | None
) -> bool:
    """Whether the follower lacks the high watermark up to which its consumers may read."""
    return (
        manager.selects_by_rack
        and session_partition is not None
        and session_partition.high_watermark != partition.high_watermark
    )
