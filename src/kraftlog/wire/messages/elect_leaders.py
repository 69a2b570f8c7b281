"""ElectLeaders: trigger preferred or unclean leader elections."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicPartitions(Message):
    topic: str = string()
    partitions: Sequence[int] = array("int32")


class ElectLeadersRequest(Message, versions=(0, 2), flexible=2):
    election_type: int = int8(since=1, default=0)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable=True)
    timeout_ms: int = int32(default=60000)


class PartitionResult(Message):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class ReplicaElectionResult(Message):
    topic: str = string()
    partition_result: Sequence[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message, versions=(0, 2), flexible=2):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=1, default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult)
