"""ListPartitionReassignments: the ongoing reassignments."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListPartitionReassignmentsTopics(Message):
    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class ListPartitionReassignmentsRequest(Message, versions=(0, 0), flexible=0):
    timeout_ms: int = int32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable=True, default=None
    )


class OngoingPartitionReassignment(Message):
    partition_index: int = int32()
    replicas: Sequence[int] = array("int32")
    adding_replicas: Sequence[int] = array("int32")
    removing_replicas: Sequence[int] = array("int32")


class OngoingTopicReassignment(Message):
    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
