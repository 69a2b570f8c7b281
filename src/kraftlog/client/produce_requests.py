"""Produce requests and their responses, and the identity of an idempotent producer."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.model import PartitionName

#: Values of `acks`: no response, the leader, all in-sync replicas.
ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}
#: How many sequence numbers there are; after the last one, the next is 0.
SEQUENCES = 1 << 31


class BatchInFlight(Value):
    """A batch that is sent and not yet acknowledged."""

    name: PartitionName
    #: The encoded batch, and the number of its records.
    batch: bytes
    count: int


def produce_request(
    batches: Iterable[BatchInFlight], acks: int, timeout_s: float
) -> ProduceRequest:
    """A request with these batches, at most one per partition."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        topic, partition = batch.name
        data = PartitionProduceData(index=partition, records=batch.batch)
        topics.setdefault(topic, []).append(data)
    return ProduceRequest(
        acks=acks,
        timeout_ms=max(1, int(timeout_s * 1000)),
        topic_data=[
            TopicProduceData(name=topic, partition_data=data) for topic, data in topics.items()
        ],
    )


def batch_results(
    response: ProduceResponse, context: ErrorContext
) -> Iterator[tuple[PartitionName, int | RefusedError]]:
    """Yield the base offset of each partition's batch, or why it was refused."""
    for topic in response.responses:
        for result in topic.partition_responses:
            name = (topic.name, result.index)
            if result.error_code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
                yield name, result.base_offset
                continue
            message = result.error_message
            if result.record_errors:
                message = result.record_errors[0].batch_index_error_message or message
            yield name, context.error(result.error_code, f"{name[0]}-{name[1]}", message)


def new_identity(cluster: Cluster) -> tuple[int, int]:
    """Get a producer id and epoch."""
    from kraftlog.wire.messages.init_producer_id import (
        InitProducerIdRequest,
        InitProducerIdResponse,
    )

    response = cluster.call(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000),
        InitProducerIdResponse,
        check=lambda response, context: context.check(response.error_code),
    )
    return response.producer_id, response.producer_epoch
