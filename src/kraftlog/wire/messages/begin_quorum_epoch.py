"""BeginQuorumEpoch: a new leader notifies the voters."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, string, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class PartitionData(Message):
    partition_index: int = int32()
    voter_directory_id: Uuid = uuid(since=1, default=NULL_UUID, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()


class TopicData(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionData] = array(PartitionData)


class LeaderEndpoint(Message):
    name: str = string(since=1, default="")
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


class BeginQuorumEpochRequest(Message, versions=(0, 1), flexible=1):
    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1, ignorable=True)
    topics: Sequence[TopicData] = array(TopicData)
    leader_endpoints: Sequence[LeaderEndpoint] = array(
        LeaderEndpoint, since=1, default=(), ignorable=True
    )


class PartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class TopicResult(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class NodeEndpoint(Message):
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


class BeginQuorumEpochResponse(Message, versions=(0, 1), flexible=1):
    error_code: int = int16()
    topics: Sequence[TopicResult] = array(TopicResult)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0, default=())
