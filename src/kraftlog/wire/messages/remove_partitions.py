"""RemovePartitions, an API of our own: remove the last partitions of a topic."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class RemovePartitionsTopic(Message):
    name: str = string()
    partitions: Sequence[int] = array("int32")


class RemovePartitionsRequest(Message, versions=(0, 0), flexible=0):
    topics: Sequence[RemovePartitionsTopic] = array(RemovePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean(default=False)


class RemovePartitionsTopicResult(Message):
    name: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable=True, default=None)


class RemovePartitionsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[RemovePartitionsTopicResult] = array(RemovePartitionsTopicResult)
