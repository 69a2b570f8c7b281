"""Names the follower that a consumer should fetch from, instead of sending records (KIP-392)."""

from __future__ import annotations

from kraftlog.node.fetch.reader import without_records
from kraftlog.replication.read_replica import NO_FOLLOWER, nearest_follower
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData


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
    response = without_records(partition)
    response.preferred_read_replica = nearest
    return response
