"""Fills a topic quickly, by sending the same batch repeatedly."""

from __future__ import annotations

from kraftlog import Client
from kraftlog.client.deadline import wall_ms
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PARTITIONS = 4
RECORDS_PER_BATCH = 1000
VALUE = bytes(range(100))


def fill(address: str, topic: str, records: int) -> int:
    """Create a topic of at least `records` records, in full batches; return their number."""
    batch = _batch()
    count = 0
    with Client(address) as client:
        client.create_topic(topic, partitions=PARTITIONS)
        deadline = client.cluster.deadline(600)
        leaders = [client.cluster.leader(topic, each, deadline) for each in range(PARTITIONS)]
        while count < records:
            for partition, leader in enumerate(leaders):
                data = PartitionProduceData(index=partition, records=batch)
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=30_000,
                    topic_data=[TopicProduceData(name=topic, partition_data=[data])],
                )
                response = client.cluster.connection(leader, deadline).call(request, deadline)
                assert isinstance(response, ProduceResponse)
                assert not response.responses[0].partition_responses[0].error_code
                count += RECORDS_PER_BATCH
    return count


def _batch() -> bytes:
    builder = BatchBuilder()
    now_ms = wall_ms()  # older records would be deleted by retention
    for number in range(RECORDS_PER_BATCH):
        builder.append(now_ms + number, None, VALUE)
    return builder.build()
