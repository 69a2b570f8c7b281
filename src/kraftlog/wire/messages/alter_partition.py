"""AlterPartition: a leader asks the controller to change the in-sync replicas."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, int64, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class BrokerState(Message):
    broker_id: int = int32(since=3, default=0)
    broker_epoch: int = int64(since=3, default=-1)


class PartitionData(Message):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: Sequence[int] = array("int32", until=2, default=())
    new_isr_with_epochs: Sequence[BrokerState] = array(BrokerState, since=3, default=())
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


class TopicData(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class AlterPartitionRequest(Message, versions=(2, 3), flexible=0):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: Sequence[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: Sequence[int] = array("int32")
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


class TopicResult(Message):
    topic_id: Uuid = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class AlterPartitionResponse(Message, versions=(2, 3), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: Sequence[TopicResult] = array(TopicResult)
