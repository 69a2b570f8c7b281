"""ConsumerGroupHeartbeat: the group protocol of KIP-848, in one request."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string, struct, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class TopicPartitions(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array("int32")


class ConsumerGroupHeartbeatRequest(Message, versions=(0, 1), flexible=0):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: Sequence[str] | None = array("string", nullable=True, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = array(
        TopicPartitions, nullable=True, default=None
    )


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Message, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable=True, default=None)
