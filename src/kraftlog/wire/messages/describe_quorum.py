"""DescribeQuorum: leader, voters and observers of the metadata quorum."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class PartitionData(Message):
    partition_index: int = int32()


class TopicData(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionData] = array(PartitionData)


class DescribeQuorumRequest(Message, versions=(0, 2), flexible=0):
    topics: Sequence[TopicData] = array(TopicData)


class ReplicaState(Message):
    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(since=2, default=NULL_UUID, ignorable=True)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64(since=1, default=-1, ignorable=True)
    # Our own: whether it is a target voter of a reassignment.
    is_target: bool = boolean(tag=10000, default=False)
    # Our own: why it lags, and the error code of its last fetch; absent if it does not lag.
    lag_reason: str = string(tag=10001, default="")
    last_error: int = int16(tag=10002, default=0)


class PartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, default=None, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: Sequence[ReplicaState] = array(ReplicaState)
    observers: Sequence[ReplicaState] = array(ReplicaState)
    # Our own: the target voters of a reassignment; null if there is none.
    target_voters: Sequence[int] | None = array("int32", nullable=True, tag=10000, default=None)
    # Our own: the target voters for which the next step of the reassignment waits.
    awaited_targets: Sequence[int] = array("int32", tag=10001, default=())
    # Our own, while the newest change of the voters is uncommitted: the voters without it, and the
    # offset of its record.
    committed_voters: Sequence[int] | None = array("int32", nullable=True, tag=10002, default=None)
    uncommitted_voters_offset: int = int64(tag=10003, default=-1)


class TopicResult(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class Listener(Message):
    name: str = string(since=2, default="")
    host: str = string(since=2, default="")
    port: int = uint16(since=2, default=0)


class Node(Message):
    node_id: int = int32(since=2, default=0)
    listeners: Sequence[Listener] = array(Listener, since=2, default=())


class DescribeQuorumResponse(Message, versions=(0, 2), flexible=0):
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, default=None, ignorable=True)
    topics: Sequence[TopicResult] = array(TopicResult)
    nodes: Sequence[Node] = array(Node, since=2, default=())
