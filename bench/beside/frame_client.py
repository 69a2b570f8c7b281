"""Sends requests to either broker over a plain connection, with kraftlog's own codec."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from kraftlog.client.connection import Connection
from kraftlog.client.deadline import Deadline, wall_ms
from kraftlog.errors import UnreachableError
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionResult,
    TopicData,
)
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

LOOPBACK = "127.0.0.1"
READY_TIMEOUT_S = 90
RESPONSE_TIMEOUT_S = 60
#: The retry interval while a broker starts; a shorter one would slow the start.
RETRY_INTERVAL_S = 0.002
TOPIC_RESOURCE = 2
#: An error code that no broker returns, to find the position of the code in a response.
SENTINEL = 0x7B7B


def connect(port: int, host: str = LOOPBACK) -> Connection:
    return Connection(host, port, "bench", deadline())


def deadline() -> Deadline:
    return Deadline(RESPONSE_TIMEOUT_S)


def wait_until_ready(port: int) -> None:
    """Wait until the broker returns Metadata with a broker in it."""
    end = Deadline(READY_TIMEOUT_S)
    while not end.is_over:
        try:
            with closing(connect(port)) as connection:
                while not end.is_over:
                    if metadata(connection).brokers:
                        return
                    time.sleep(RETRY_INTERVAL_S)
        except UnreachableError:
            time.sleep(RETRY_INTERVAL_S)
    raise TimeoutError(f"no Metadata from 127.0.0.1:{port} within {READY_TIMEOUT_S} s")


def metadata(connection: Connection, *topics: str) -> MetadataResponse:
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    response = connection.call(MetadataRequest(topics=wanted), deadline())
    assert isinstance(response, MetadataResponse)
    return response


def try_to_create(connection: Connection, name: str, partitions: int = 1) -> int:
    """Send a CreateTopics request for one topic; return its error code."""
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    response = connection.call(CreateTopicsRequest(topics=[topic]), deadline())
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code


def create_topic(port: int, name: str, partitions: int = 1) -> None:
    """Create a topic and wait for its leaders; retry while the broker starts."""
    with closing(connect(port)) as connection:
        end = deadline()
        while try_to_create(connection, name, partitions) and not end.is_over:
            time.sleep(RETRY_INTERVAL_S)
        while not end.is_over:
            [topic] = metadata(connection, name).topics
            if topic.error_code == 0 and all(part.error_code == 0 for part in topic.partitions):
                return
            time.sleep(RETRY_INTERVAL_S)
    raise TimeoutError(f"topic {name} was not created, or has no leader")


def delete_topic(port: int, name: str) -> None:
    with closing(connect(port)) as connection:
        connection.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), deadline())


def describe_quorum(port: int) -> PartitionResult:
    """The quorum as the active controller describes it."""
    topics = [
        TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    ]
    with closing(connect(port)) as connection:
        response = connection.call(DescribeQuorumRequest(topics=topics), deadline())
    assert isinstance(response, DescribeQuorumResponse)
    assert response.error_code == 0, response
    [partition] = response.topics[0].partitions
    return partition


def retention_change(topic: str, value_ms: int) -> IncrementalAlterConfigsRequest:
    """A request to change a topic's retention: the smallest metadata change, of one record."""
    config = AlterableConfig(name="retention.ms", config_operation=0, value=str(value_ms))
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def try_to_change(connection: Connection, topic: str, value_ms: int) -> int:
    """Send a change of a topic's retention; return its error code."""
    response = connection.call(retention_change(topic, value_ms), deadline())
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response.responses[0].error_code


def produce_request(topic: str, size: int, acks: int = 1) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(wall_ms(), None, b"x" * size)  # older records would be deleted by retention
    parts = [PartitionProduceData(index=0, records=builder.build())]
    topics = [TopicProduceData(name=topic, partition_data=parts)]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def fetch_request(topic: str, offset: int) -> FetchRequest:
    """A request for the batch at an offset; the response waits until that batch exists."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    return FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics)


def frame(key: int, version: int, request: Message) -> bytes:
    return b"".join(request_frame(APIS[key], version, 1, "bench", request))


#: Versions that both brokers support.
PRODUCE_VERSION, ALTER_VERSION = 9, 1


def produce_records(port: int, topic: str, count: int) -> None:
    """Produce a few records."""
    with closing(connect(port)) as connection:
        for _ in range(count):
            connection.call(produce_request(topic, 100), deadline())


def produce_frame(topic: str, acks: int = 1) -> bytes:
    return frame(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, 100, acks))


def change_frames(topic: str, count: int = 64) -> bytes:
    """Requests for different values, as a broker may skip a change that has no effect."""
    changes = [retention_change(topic, 100_000_000 + number) for number in range(count)]
    return b"".join(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, it) for it in changes)


def produce_error_position(topic: str) -> int:
    """The position of the error code in a Produce response, counted after the length field."""
    part = PartitionProduceResponse(index=0, error_code=SENTINEL, base_offset=0)
    topics = [TopicProduceResponse(name=topic, partition_responses=[part])]
    return _position_of_code(encode(ProduceResponse(responses=topics), PRODUCE_VERSION))


def change_error_position(topic: str) -> int:
    """The position of the error code in a response to `retention_change`."""
    part = AlterConfigsResourceResponse(
        error_code=SENTINEL, error_message=None, resource_type=TOPIC_RESOURCE, resource_name=topic
    )
    return _position_of_code(
        encode(IncrementalAlterConfigsResponse(responses=[part]), ALTER_VERSION)
    )


def _position_of_code(body: bytes) -> int:
    return 5 + body.index(SENTINEL.to_bytes(2, "big"))  # after correlation id and tags
