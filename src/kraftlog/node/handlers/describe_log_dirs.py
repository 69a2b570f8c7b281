"""DescribeLogDirs 1-5: the log directories, their free space and the sizes of their logs."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import FutureLog
    from kraftlog.replication.partition import Partition
    from kraftlog.types import LogName, Now
    from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest

#: Partitions per slice, and the cost of one in microseconds.
PARTITIONS_PER_SLICE = 50
PARTITION_COST = 3


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeLogDirsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    wanted, results, count = _requested(node, request), [], 0
    cordoned = node.cordoned_directories.ids()
    for directory in node.logs.directories:
        if directory.is_offline:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            results.append(
                DescribeLogDirsResult(
                    error_code=code,
                    log_dir=directory.path,
                    topics=(),
                    is_cordoned=directory.id in cordoned,
                )
            )
            continue
        inside = [it for it in wanted if node.logs.directory_of(it.log) is directory]
        count += len(inside)
        yield 1 + len(wanted) // 2
        futures = [it for it in node.logs.futures() if it.directory is directory]
        count += len(futures)
        topics = yield from _topics(node, inside, futures, {it.log for it in wanted})
        total, usable = directory.space()
        results.append(
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=directory.path,
                topics=topics,
                total_bytes=total,
                usable_bytes=usable,
                is_cordoned=directory.id in cordoned,
            )
        )
    yield from pending.respond_in_steps(DescribeLogDirsResponse(results=results), count)


def _requested(node: ServingNode, request: DescribeLogDirsRequest) -> list[Partition]:
    """The requested partitions that have a replica here; all of them if the list is null."""
    if request.topics is None:
        return list(node.replica_manager.by_log.values())
    names = [(topic.topic, index) for topic in request.topics for index in topic.partitions]
    return [
        node.replica_manager.by_log[name]
        for name in dict.fromkeys(names)
        if name in node.replica_manager.by_log
    ]


def _topics(
    node: ServingNode,
    partitions: list[Partition],
    futures: Iterable[FutureLog],
    wanted: Container[LogName],
) -> Generator[int, None, list[DescribeLogDirsTopic]]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for number, partition in enumerate(partitions, 1):
        if not number % PARTITIONS_PER_SLICE:
            yield PARTITIONS_PER_SLICE * PARTITION_COST
        by_topic.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=node.logs.size_bytes(partition.log),
                offset_lag=partition.lag,
                is_future_key=False,
            )
        )
    for future in futures:
        if future.log in wanted:
            by_topic.setdefault(future.log[0], []).append(
                DescribeLogDirsPartition(
                    partition_index=future.log[1],
                    partition_size=future.size_bytes,
                    offset_lag=future.lag,
                    is_future_key=True,
                )
            )
    return [DescribeLogDirsTopic(name=name, partitions=logs) for name, logs in by_topic.items()]
