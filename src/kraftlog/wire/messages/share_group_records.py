"""The records of share groups in `__consumer_offsets`, so that Kafka's logs can be read."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int32, int64, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class ShareGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array("int32")


class ShareGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ShareGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")


class ShareGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class ShareGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupStatePartitionMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class TopicPartitionsInfo(Message):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array("int32")


class TopicInfo(Message):
    topic_id: Uuid = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, versions=(0, 0), flexible=0):
    initializing_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: Sequence[TopicInfo] = array(TopicInfo)


class ShareGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TopicPartition(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array("int32")


class ShareGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    topic_partitions: Sequence[TopicPartition] = array(TopicPartition)


class ShareGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)
