"""CreatePartitions: add partitions to a topic."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class CreatePartitionsAssignment(Message):
    broker_ids: Sequence[int] = array("int32")


class CreatePartitionsTopic(Message):
    name: str = string()
    count: int = int32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable=True
    )


class CreatePartitionsRequest(Message, versions=(0, 3), flexible=2):
    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Message):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class CreatePartitionsResponse(Message, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
