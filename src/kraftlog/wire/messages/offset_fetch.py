"""OffsetFetch: the committed offsets of a group, or of several from version 8."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class OffsetFetchRequestTopic(Message):
    name: str = string(until=7, default="")
    partition_indexes: Sequence[int] = array("int32", until=7, default=())


class OffsetFetchRequestTopics(Message):
    name: str = string(since=8, until=9, default="", ignorable=True)
    topic_id: Uuid = uuid(since=10, default=NULL_UUID, ignorable=True)
    partition_indexes: Sequence[int] = array("int32", since=8, default=())


class OffsetFetchRequestGroup(Message):
    group_id: str = string(since=8, default="")
    member_id: str | None = string(since=9, nullable=True, default=None, ignorable=True)
    member_epoch: int = int32(since=9, default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, since=8, nullable=True, default=()
    )


class OffsetFetchRequest(Message, versions=(1, 10), flexible=6):
    group_id: str = string(until=7, default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, until=7, nullable=2, default=()
    )
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8, default=())
    require_stable: bool = boolean(since=7, default=False)


class OffsetFetchResponsePartition(Message):
    partition_index: int = int32(until=7, default=0)
    committed_offset: int = int64(until=7, default=0)
    committed_leader_epoch: int = int32(since=5, until=7, default=-1, ignorable=True)
    metadata: str | None = string(until=7, nullable=True, default="")
    error_code: int = int16(until=7, default=0)


class OffsetFetchResponseTopic(Message):
    name: str = string(until=7, default="")
    partitions: Sequence[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, until=7, default=()
    )


class OffsetFetchResponsePartitions(Message):
    partition_index: int = int32(since=8, default=0)
    committed_offset: int = int64(since=8, default=0)
    committed_leader_epoch: int = int32(since=8, default=-1, ignorable=True)
    metadata: str | None = string(since=8, nullable=True, default="")
    error_code: int = int16(since=8, default=0)


class OffsetFetchResponseTopics(Message):
    name: str = string(since=8, until=9, default="", ignorable=True)
    topic_id: Uuid = uuid(since=10, default=NULL_UUID, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(
        OffsetFetchResponsePartitions, since=8, default=()
    )


class OffsetFetchResponseGroup(Message):
    group_id: str = string(since=8, default="")
    topics: Sequence[OffsetFetchResponseTopics] = array(
        OffsetFetchResponseTopics, since=8, default=()
    )
    error_code: int = int16(since=8, default=0)


class OffsetFetchResponse(Message, versions=(1, 10), flexible=6):
    throttle_time_ms: int = int32(since=3, default=0, ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = array(
        OffsetFetchResponseTopic, until=7, default=()
    )
    error_code: int = int16(since=2, until=7, default=0, ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = array(
        OffsetFetchResponseGroup, since=8, default=()
    )
