"""DescribeLogDirs: size and lag of the replicas in a broker's log directories."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribableLogDirTopic(Message):
    topic: str = string()
    partitions: Sequence[int] = array("int32")


class DescribeLogDirsRequest(Message, versions=(1, 5), flexible=2):
    topics: Sequence[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable=True)


class DescribeLogDirsPartition(Message):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Message):
    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Message):
    error_code: int = int16()
    log_dir: str = string()
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1, ignorable=True)
    usable_bytes: int = int64(since=4, default=-1, ignorable=True)
    is_cordoned: bool = boolean(since=5, default=False, ignorable=True)


class DescribeLogDirsResponse(Message, versions=(1, 5), flexible=2):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=3, default=0, ignorable=True)
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult)
