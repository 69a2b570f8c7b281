"""Subscriptions and assignments, which consumers exchange through a classic group."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, binary, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicPartition(Message):
    topic: str = string(since=1, default="")
    partitions: Sequence[int] = array("int32", since=1, default=())


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: Sequence[str] = array("string")
    user_data: bytes | None = binary(nullable=True, default=None)
    owned_partitions: Sequence[TopicPartition] = array(
        TopicPartition, since=1, default=(), ignorable=True
    )
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable=True, default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = string()
    partitions: Sequence[int] = array("int32")


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: Sequence[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition
    )
    user_data: bytes | None = binary(nullable=True, default=None)
