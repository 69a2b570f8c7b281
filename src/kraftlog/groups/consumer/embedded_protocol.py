"""The messages that consumers of the classic protocol exchange through their group."""

from __future__ import annotations

from kraftlog.errors import ProtocolError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kraftlog.wire.record_frames import decode_consumer_protocol, encode_versioned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
    from kraftlog.types import Uuid

LAST_VERSION = 3


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a member's metadata; raises ProtocolError."""
    return decode_consumer_protocol(ConsumerProtocolSubscription, metadata)


def assignment_of(
    topics: ClusterMetadata, raw: bytes
) -> tuple[dict[Uuid, frozenset[int]], bytes | None]:
    """An assignment as far as its topics exist, and its user data; raises ProtocolError."""
    if not raw:
        return {}, None
    assignment = decode_consumer_protocol(ConsumerProtocolAssignment, raw)
    return {
        topic.id: frozenset(each.partitions)
        for each in assignment.assigned_partitions
        if (topic := topics.named(each.topic)) is not None
    }, assignment.user_data


def encoded_assignment(
    topics: ClusterMetadata, assignment: Mapping[Uuid, Iterable[int]], metadata: bytes
) -> bytes:
    """An assignment in the version of a member's metadata."""
    if len(metadata) < 2:
        raise ProtocolError("the subscription is too short: it has no version")
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), LAST_VERSION)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in assignment.items()
            if (topic := topics.with_id(topic_id)) is not None
        ]
    )
    return encode_versioned(message, version)
