"""DescribeProducers 0: the active producers of partitions."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.describe_producers import DescribeProducersRequest

#: Cost of a partition in microseconds, and producers per slice.
PARTITION_COST = 3
PRODUCERS_PER_SLICE = 200


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeProducersRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    described: set[tuple[str, int]] = set()
    topics = []
    count = 0
    for topic in request.topics:
        results = []
        for index in topic.partition_indexes:
            if (topic.name, index) in described:
                continue  # a duplicate: many of them would multiply the size of the response
            described.add((topic.name, index))
            result = yield from _described(node, topic.name, index)
            results.append(result)
            count += 1 + len(result.active_producers)
        topics.append(TopicResponse(name=topic.name, partitions=results))
        yield PARTITION_COST
    yield from pending.respond_in_steps(DescribeProducersResponse(topics=topics), count)


def _described(
    node: ServingNode, topic: str, index: int
) -> Generator[int, None, PartitionResponse]:
    partition = node.replica_manager.partition(topic, NULL_UUID, index, by_id=False)
    code = partition if isinstance(partition, int) else partition.error_for_request(-1)
    yield PARTITION_COST
    if code or isinstance(partition, int):
        exists = topic in node.image.topic_ids
        why = None if exists else "This server does not host this topic-partition."
        return PartitionResponse(
            partition_index=index, error_code=code, error_message=why, active_producers=()
        )
    entries = [] if partition.producers is None else list(partition.producers.entries.values())
    states: list[ProducerState] = []
    for entry in entries:
        states.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_start,
            )
        )
        if not len(states) % PRODUCERS_PER_SLICE:
            yield PRODUCERS_PER_SLICE
    return PartitionResponse(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=states
    )
