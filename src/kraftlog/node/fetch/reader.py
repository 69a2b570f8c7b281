"""`Reader`: who reads, what it may see of a partition, and whether its position is in the log.

Consumers see what is below the high watermark, which without transactions is the last stable offset
too. They may read from a follower as well, up to its own high watermark (KIP-392). Followers read
up to the end of the leader's log; a follower's fetch offset tells the leader what it has.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.replication.leader_epochs import end_of_epoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import EpochEndOffset, PartitionData

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.replication.partition import Partition
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest

#: The first version whose responses can name a diverging epoch.
DIVERGING_SINCE = 12
#: The first version with a rack: since then consumers may read from followers.
RACKS_SINCE = 11
_UNKNOWN_TOPIC_ERRORS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Reader:
    """The consumer or follower that has sent a request."""

    __slots__ = ("follower", "is_follower", "pending_positions", "reads_followers", "version")

    def __init__(self, version: int, request: FetchRequest) -> None:
        self.version = version
        state = request.replica_state
        #: The broker that fetches as a follower, and its epoch; -1 for a consumer.
        self.follower = max(request.replica_id, state.replica_id), state.replica_epoch
        self.is_follower = self.follower[0] >= 0
        self.reads_followers = version >= RACKS_SINCE and not self.is_follower
        #: The `id()`s of a follower's `FetchPartition`s whose positions are not noted yet.
        self.pending_positions: set[int] = set()
        if self.is_follower:
            self.pending_positions.update(
                [id(part) for it in request.topics for part in it.partitions]
            )

    def readable_end(self, partition: Partition) -> int:
        """The end of what the reader may see: followers read above the high watermark."""
        return partition.written_end if self.is_follower else partition.high_watermark

    def error_code(self, partition: Partition, part: FetchPartition) -> int:
        epoch = part.current_leader_epoch
        return partition.error_for_request(epoch, reads_followers=self.reads_followers)

    def check_position(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> PartitionData | None:
        """Check the offset and epoch of a fetch, and note them as a follower's position.

        Returns a response without records if there is an error or a diverging epoch.

        A follower has everything below the offset that its request names. An offset that only the
        session has is that of an earlier request, and proves nothing new.
        """
        is_current = partition.online and part.current_leader_epoch == partition.leader_epoch
        code = ErrorCode.NONE if is_current else self.error_code(partition, part)
        if not code:
            if part.last_fetched_epoch >= 0 and part.fetch_offset >= partition.start:
                diverging = _diverging_epoch(node, partition, part)
                if diverging is not None:
                    return diverging
            if not partition.start <= part.fetch_offset <= partition.end:
                return self._out_of_range(node, partition, part)
            if id(part) in self.pending_positions and part.fetch_offset <= partition.written_end:
                self.pending_positions.remove(id(part))
                code = node.replica_manager.in_sync_replicas.fetched(
                    partition, *self.follower, part.fetch_offset, part.log_start_offset
                )
        if code:
            partition.counts.failed_fetches += 1
            return refused(part.partition, code)
        return None

    def _out_of_range(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> PartitionData:
        """The error for an offset out of range; a follower also gets the log start and end."""
        response = refused(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.is_follower and self.version >= DIVERGING_SINCE:
            response.log_start_offset = partition.start
            response.diverging_epoch = EpochEndOffset(
                epoch=node.logs.latest_epoch(partition.log), end_offset=partition.written_end
            )
        return response


def _diverging_epoch(
    node: ServingNode, partition: Partition, part: FetchPartition
) -> PartitionData | None:
    """The diverging epoch, if the last fetched epoch and offset do not match this log."""
    if part.last_fetched_epoch == partition.leader_epoch and (
        part.fetch_offset <= partition.written_end
    ):
        return None  # the usual case: that epoch has not ended
    epoch, end = end_of_epoch(node.logs, partition, part.last_fetched_epoch)
    if end < 0:
        return refused(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == part.last_fetched_epoch and part.fetch_offset <= end:
        return None
    response = without_records(partition)
    response.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
    return response


def without_records(partition: Partition) -> PartitionData:
    """The response for a partition that is not read, with its offsets."""
    return PartitionData(
        partition_index=partition.index,
        error_code=ErrorCode.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,
        log_start_offset=partition.start,
        aborted_transactions=None,
        records=b"",
    )


def refused(index: int, code: int) -> PartitionData:
    """The response for a partition with an error."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        # As Kafka does: empty for unknown partitions, null for other errors.
        aborted_transactions=() if code in _UNKNOWN_TOPIC_ERRORS else None,
        records=b"",
    )
