"""Produce: append record batches to partitions. With acks 0 there is no response."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import (
    EMPTY,
    Message,
    array,
    batches,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Buffer, Uuid


class PartitionProduceData(Message):
    index: int = int32()
    records: Buffer | None = batches(nullable=True)


class TopicProduceData(Message):
    name: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=NULL_UUID, ignorable=True)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, versions=(3, 13), flexible=9):
    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Message):
    batch_index: int = int32(since=8, default=0)
    batch_index_error_message: str | None = string(since=8, nullable=True, default=None)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32(since=10, default=-1)
    leader_epoch: int = int32(since=10, default=-1)


class PartitionProduceResponse(Message):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, since=8, default=(), ignorable=True
    )
    error_message: str | None = string(since=8, nullable=True, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0, default=EMPTY)


class TopicProduceResponse(Message):
    name: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=NULL_UUID, ignorable=True)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Message):
    node_id: int = int32(since=10, default=0)
    host: str = string(since=10, default="")
    port: int = int32(since=10, default=0)
    rack: str | None = string(since=10, nullable=True, default=None)


class ProduceResponse(Message, versions=(3, 13), flexible=9):
    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0, default=())
