"""CreateTopics: create topics, with replicas placed by the controller or the client."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class CreatableReplicaAssignment(Message):
    partition_index: int = int32()
    broker_ids: Sequence[int] = array("int32")


class CreatableTopicConfig(Message):
    name: str = string()
    value: str | None = string(nullable=True)


class CreatableTopic(Message):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Message, versions=(2, 7), flexible=5):
    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


class CreatableTopicConfigs(Message):
    name: str = string(since=5, default="")
    value: str | None = string(since=5, nullable=True, default="")
    read_only: bool = boolean(since=5, default=False)
    config_source: int = int8(since=5, default=-1, ignorable=True)
    is_sensitive: bool = boolean(since=5, default=False)


class CreatableTopicResult(Message):
    name: str = string()
    topic_id: Uuid = uuid(since=7, default=NULL_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    topic_config_error_code: int = int16(since=5, tag=0, default=0, ignorable=True)
    num_partitions: int = int32(since=5, default=-1, ignorable=True)
    replication_factor: int = int16(since=5, default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable=True, default=(), ignorable=True
    )


class CreateTopicsResponse(Message, versions=(2, 7), flexible=5):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
