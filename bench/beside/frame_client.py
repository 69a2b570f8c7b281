"""Sends requests to either broker over a plain connection, with our own codec."""

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

READY_WITHIN_S = 90
ANSWER_WITHIN_S = 60
#: The retry interval while a broker starts; a shorter one would slow the start.
TRY_EVERY_S = 0.002
TOPIC_RESOURCE = 2
#: An error code that no broker returns, to find the position of the code in a response.
SENTINEL = 0x7B7B


def connect(port: int) -> Connection:
    return Connection("127.0.0.1", port, "bench", deadline())


def deadline() -> Deadline:
    return Deadline(ANSWER_WITHIN_S)


def wait_until_ready(port: int) -> None:
    """Wait until the broker returns Metadata with a broker in it."""
    end = Deadline(READY_WITHIN_S)
    while not end.is_over:
        try:
            with closing(connect(port)) as connection:
                while not end.is_over:
                    if metadata(connection).brokers:
                        return
                    time.sleep(TRY_EVERY_S)
        except UnreachableError:
            time.sleep(TRY_EVERY_S)
    raise TimeoutError(f"no Metadata from 127.0.0.1:{port} within {READY_WITHIN_S} s")


def metadata(connection: Connection, *topics: str) -> MetadataResponse:
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    answer = connection.call(MetadataRequest(topics=wanted), deadline())
    assert isinstance(answer, MetadataResponse)
    return answer


def creation_error(connection: Connection, name: str) -> int:
    """Create a topic of one partition; return the error code."""
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    answer = connection.call(CreateTopicsRequest(topics=[topic]), deadline())
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics[0].error_code


def make_topic(port: int, name: str) -> None:
    """Create a topic and wait for its leader; retry while the broker starts."""
    with closing(connect(port)) as connection:
        end = deadline()
        while creation_error(connection, name) and not end.is_over:
            time.sleep(TRY_EVERY_S)
        while not end.is_over:
            [topic] = metadata(connection, name).topics
            if topic.error_code == 0 and all(part.error_code == 0 for part in topic.partitions):
                return
            time.sleep(TRY_EVERY_S)
    raise TimeoutError(f"{name} can't be made, or has no leader")


def delete_topic(port: int, name: str) -> None:
    with closing(connect(port)) as connection:
        connection.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), deadline())


def quorum(port: int) -> PartitionResult:
    """The quorum as the active controller describes it."""
    topics = [
        TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    ]
    with closing(connect(port)) as connection:
        answer = connection.call(DescribeQuorumRequest(topics=topics), deadline())
    assert isinstance(answer, DescribeQuorumResponse)
    assert answer.error_code == 0, answer
    [partition] = answer.topics[0].partitions
    return partition


def retention(topic: str, value_ms: int) -> IncrementalAlterConfigsRequest:
    """The smallest metadata change: one record."""
    config = AlterableConfig(name="retention.ms", config_operation=0, value=str(value_ms))
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def change_error(connection: Connection, topic: str, value_ms: int) -> int:
    """Change a topic's retention; return the error code."""
    answer = connection.call(retention(topic, value_ms), deadline())
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


def produce(topic: str, size: int, acks: int = 1) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(wall_ms(), None, b"x" * size)  # older records would be deleted by retention
    parts = [PartitionProduceData(index=0, records=builder.build())]
    topics = [TopicProduceData(name=topic, partition_data=parts)]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def fetch(topic: str, offset: int) -> FetchRequest:
    """Fetch the next batch as soon as it exists."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    return FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics)


def frame(key: int, version: int, request: Message) -> bytes:
    return b"".join(request_frame(APIS[key], version, 1, "bench", request))


#: Versions that both brokers support.
PRODUCE_VERSION, ALTER_VERSION = 9, 1


def put(port: int, topic: str, count: int) -> None:
    """Produce a few records."""
    with closing(connect(port)) as connection:
        for _ in range(count):
            connection.call(produce(topic, 100), deadline())


def produce_frames(topic: str, acks: int = 1) -> bytes:
    return frame(ApiKey.PRODUCE, PRODUCE_VERSION, produce(topic, 100, acks))


def change_frames(topic: str, count: int = 64) -> bytes:
    """Different changes, as a broker may skip one that has no effect."""
    changes = [retention(topic, 100_000_000 + number) for number in range(count)]
    return b"".join(frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, it) for it in changes)


def produce_error_at(topic: str) -> int:
    """The position of the error code in a response, after its length."""
    part = PartitionProduceResponse(index=0, error_code=SENTINEL, base_offset=0)
    topics = [TopicProduceResponse(name=topic, partition_responses=[part])]
    return _code_at(encode(ProduceResponse(responses=topics), PRODUCE_VERSION))


def change_error_at(topic: str) -> int:
    part = AlterConfigsResourceResponse(
        error_code=SENTINEL, error_message=None, resource_type=TOPIC_RESOURCE, resource_name=topic
    )
    return _code_at(encode(IncrementalAlterConfigsResponse(responses=[part]), ALTER_VERSION))


def _code_at(body: bytes) -> int:
    return 5 + body.index(SENTINEL.to_bytes(2, "big"))  # after correlation id and tags
