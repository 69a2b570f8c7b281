"""DescribeProducers: the active producers of a partition."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicRequest(Message):
    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class DescribeProducersRequest(Message, versions=(0, 0), flexible=0):
    topics: Sequence[TopicRequest] = array(TopicRequest)


class ProducerState(Message):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    active_producers: Sequence[ProducerState] = array(ProducerState)


class TopicResponse(Message):
    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[TopicResponse] = array(TopicResponse)
