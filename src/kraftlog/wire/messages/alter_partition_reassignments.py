"""AlterPartitionReassignments: reassign partitions, or cancel reassignments."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ReassignablePartition(Message):
    partition_index: int = int32()
    replicas: Sequence[int] | None = array("int32", nullable=True, default=None)


class ReassignableTopic(Message):
    name: str = string()
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Message, versions=(0, 1), flexible=0):
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class ReassignableTopicResponse(Message):
    name: str = string()
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Message, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean(since=1, default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse)
