"""TxnOffsetCommit: commit a group's offsets as part of a transaction."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable=True)


class TxnOffsetCommitRequestTopic(Message):
    name: str = string(until=5, default="", ignorable=True)
    topic_id: Uuid = uuid(since=6, default=NULL_UUID, ignorable=True)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, versions=(0, 6), flexible=3):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(since=3, default=-1)
    member_id: str = string(since=3, default="")
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Message):
    name: str = string(until=5, default="", ignorable=True)
    topic_id: Uuid = uuid(since=6, default=NULL_UUID, ignorable=True)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, versions=(0, 6), flexible=3):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
