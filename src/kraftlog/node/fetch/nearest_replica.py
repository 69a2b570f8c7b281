"""Names the follower that a consumer should fetch from, instead of sending records (KIP-392)."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.replication.read_replica import NO_FOLLOWER, nearest_follower
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest


def redirect_to_follower(
    node: ServingNode,
    pending: PendingResponse,
    request: FetchRequest,
    partition: Partition,
    part: FetchPartition,
) -> PartitionData | None:
    """A response that names a follower in the consumer's rack; None: read from this broker."""
    if not partition.leads:
        return None
    nearest = nearest_follower(
        partition,
        part.fetch_offset,
        request.rack_id,
        node.image,
        pending.connection.listener_name,
    )
    if nearest == NO_FOLLOWER:
        return None
    return PartitionData(
        partition_index=part.partition,
        error_code=ErrorCode.NONE,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,
        log_start_offset=partition.start,
        aborted_transactions=None,
        preferred_read_replica=nearest,
        records=b"",
    )
