"""Vote: a candidate requests a vote, or a pre-vote that does not change the epoch."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class PartitionData(Message):
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(since=1, default=NULL_UUID, ignorable=True)
    voter_directory_id: Uuid = uuid(since=1, default=NULL_UUID, ignorable=True)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(since=2, default=False)


class TopicData(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionData] = array(PartitionData)


class VoteRequest(Message, versions=(0, 2), flexible=0):
    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1, ignorable=True)
    topics: Sequence[TopicData] = array(TopicData)


class PartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class TopicResult(Message):
    topic_name: str = string()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class NodeEndpoint(Message):
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


class VoteResponse(Message, versions=(0, 2), flexible=0):
    error_code: int = int16()
    topics: Sequence[TopicResult] = array(TopicResult)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0, default=())
