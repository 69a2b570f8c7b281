"""Looks up offsets of partitions: earliest, latest, or by timestamp."""

from __future__ import annotations

from kraftlog.client.model import FoundOffset
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName

#: Special timestamps of ListOffsets.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
#: The special timestamps by their names in kafka-get-offsets.
SPECS = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}


def timestamp_of(spec: str | int) -> int:
    """The timestamp for ListOffsets: `spec` itself, or the special one with this name."""
    if isinstance(spec, int):
        return spec
    if spec not in SPECS:
        raise ValueError(f"offsets {spec!r}: expected a timestamp or one of {', '.join(SPECS)}")
    return SPECS[spec]


def find(
    cluster: Cluster, timestamps: Mapping[PartitionName, int], isolation_level: int = 0
) -> dict[PartitionName, FoundOffset]:
    """Look up the offset of each partition for its timestamp, which may be one of `SPECS`."""
    deadline = cluster.deadline()
    offsets: dict[PartitionName, FoundOffset] = {}

    def call_leader(broker: int, names: Sequence[PartitionName]) -> None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in names:
            part = ListOffsetsPartition(partition_index=index, timestamp=timestamps[topic, index])
            topics.setdefault(topic, []).append(part)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(name=topic, partitions=parts) for topic, parts in topics.items()
            ],
            timeout_ms=int(deadline.left_s() * 1000),
        )
        response = cluster.connection(broker, deadline).call(request, deadline)
        assert isinstance(response, ListOffsetsResponse)
        context = cluster.error_context("ListOffsets", broker)
        for topic_response in response.topics:
            for result in topic_response.partitions:
                name = (topic_response.name, result.partition_index)
                context.check(result.error_code, f"{name[0]}-{name[1]}")
                offsets[name] = FoundOffset(result.offset, result.timestamp, result.leader_epoch)

    cluster.per_leader(timestamps, call_leader, deadline)
    return {name: offsets[name] for name in timestamps}
