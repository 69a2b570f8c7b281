"""The records of streams groups in `__consumer_offsets`, so that Kafka's logs can be read."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, int64, string, struct, uint16

if TYPE_CHECKING:
    from collections.abc import Sequence


class StreamsGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class TaskIds(Message):
    subtopology_id: str = string()
    partitions: Sequence[int] = array("int32")
    assignment_epochs: Sequence[int] | None = array("int32", nullable=True, tag=0, default=())


class StreamsGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible=0):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: Sequence[TaskIds] = array(TaskIds)
    standby_tasks: Sequence[TaskIds] = array(TaskIds)
    warmup_tasks: Sequence[TaskIds] = array(TaskIds)
    active_tasks_pending_revocation: Sequence[TaskIds] = array(TaskIds)
    standby_tasks_pending_revocation: Sequence[TaskIds] = array(TaskIds)
    warmup_tasks_pending_revocation: Sequence[TaskIds] = array(TaskIds)


class StreamsGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class Endpoint(Message):
    host: str = string()
    port: int = uint16()


class KeyValue(Message):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, versions=(0, 0), flexible=0):
    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable=True, default=None)
    client_tags: Sequence[KeyValue] = array(KeyValue)


class StreamsGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class LastAssignmentConfig(Message):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message, versions=(0, 0), flexible=0):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1)
    last_assignment_configs: Sequence[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable=True, tag=1, default=()
    )


class StreamsGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str = string()
    member_id: str = string()


class StreamsGroupTargetAssignmentMemberValueTaskIds(Message):
    subtopology_id: str = string()
    partitions: Sequence[int] = array("int32")


class StreamsGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible=0):
    active_tasks: Sequence[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds
    )
    standby_tasks: Sequence[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds
    )
    warmup_tasks: Sequence[StreamsGroupTargetAssignmentMemberValueTaskIds] = array(
        StreamsGroupTargetAssignmentMemberValueTaskIds
    )


class StreamsGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible=0):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, default=0)


class StreamsGroupTopologyKey(Message, versions=(0, 0)):
    group_id: str = string()


class TopicConfig(Message):
    key: str = string()
    value: str = string()


class TopicInfo(Message):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Message):
    source_topics: Sequence[int] = array("int16")
    source_topic_regex: Sequence[int] = array("int16")
    repartition_source_topics: Sequence[int] = array("int16")


class Subtopology(Message):
    subtopology_id: str = string()
    source_topics: Sequence[str] = array("string")
    source_topic_regex: Sequence[str] = array("string")
    state_changelog_topics: Sequence[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: Sequence[str] = array("string")
    repartition_source_topics: Sequence[TopicInfo] = array(TopicInfo)
    copartition_groups: Sequence[CopartitionGroup] = array(CopartitionGroup)


class StreamsGroupTopologyValue(Message, versions=(0, 0), flexible=0):
    epoch: int = int32()
    subtopologies: Sequence[Subtopology] = array(Subtopology)
