"""The records of consumer groups (KIP-848) in `__consumer_offsets`."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import (
    EMPTY,
    Message,
    array,
    binary,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array("int32")
    assignment_epochs: Sequence[int] | None = array("int32", nullable=True, tag=0, default=())


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: Sequence[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Message):
    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = int32()
    supported_protocols: Sequence[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable=True)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=True)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable=True, tag=0, default=EMPTY
    )


class ConsumerGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class PartitionMetadata(Message):
    partition: int = int32()
    racks: Sequence[str] = array("string")


class TopicMetadata(Message):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: Sequence[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    topics: Sequence[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupRegularExpressionKey(Message, versions=(0, 0)):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions=(0, 0), flexible=0):
    topics: Sequence[str] = array("string")
    version: int = int64()
    timestamp: int = int64()


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartition(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array("int32")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    topic_partitions: Sequence[TopicPartition] = array(TopicPartition)


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)
