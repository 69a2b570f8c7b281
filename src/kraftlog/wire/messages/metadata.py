"""Metadata: brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class MetadataRequestTopic(Message):
    topic_id: Uuid = uuid(since=10, default=NULL_UUID, ignorable=True)
    name: str | None = string(nullable=10)


class MetadataRequest(Message, versions=(0, 13), flexible=9):
    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = boolean(since=8, default=False)
    # Our own: requests a linearizable read. Older versions have no error code for a failed one.
    linearizable: bool = boolean(since=13, tag=10000, default=False)


class MetadataResponseBroker(Message):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=True, default=None, ignorable=True)


class MetadataResponsePartition(Message):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1, ignorable=True)
    replica_nodes: Sequence[int] = array("int32")
    isr_nodes: Sequence[int] = array("int32")
    offline_replicas: Sequence[int] = array("int32", since=5, default=(), ignorable=True)


class MetadataResponseTopic(Message):
    error_code: int = int16()
    name: str | None = string(nullable=12)
    topic_id: Uuid = uuid(since=10, default=NULL_UUID, ignorable=True)
    is_internal: bool = boolean(since=1, default=False, ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


class MetadataResponse(Message, versions=(0, 13), flexible=9):
    throttle_time_ms: int = int32(since=3, default=0, ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=True, default=None, ignorable=True)
    controller_id: int = int32(since=1, default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic, pieces=True)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13, default=0, ignorable=True)
