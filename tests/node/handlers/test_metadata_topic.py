"""Q27: the metadata log as a topic: delayed fetches, Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.node.fetch_sessions import FINAL_EPOCH
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.frame_client import FrameClient, create_topics, make_host

if TYPE_CHECKING:
    from kraftlog.simulator.host import VirtualHost

#: Fields of a partition that both APIs have.
SHARED = (
    "error_code",
    "partition_index",
    "leader_id",
    "leader_epoch",
    "replica_nodes",
    "isr_nodes",
)

WAIT_MS = 400


def fetch(offset: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=METADATA_TOPIC, partitions=[part])
    return FetchRequest(topics=[topic], max_wait_ms=WAIT_MS, min_bytes=1, session_epoch=FINAL_EPOCH)


@pytest.fixture
def client() -> FrameClient:
    """A client that fetches from the end of the metadata log."""
    host = make_host()
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(host.node.quorum.core.log.high_watermark))
    return client


def fetched_partitions(client: FrameClient) -> list[Any]:
    """Run the node until it is idle; return the partition of each response."""
    client.host.settle()
    return [answer.responses[0].partitions[0] for _, answer in client.take()]


def test_q27_a_fetch_at_the_end_waits_for_the_next_commit(client: FrameClient) -> None:
    before = client.host.node.quorum.core.log.high_watermark
    assert fetched_partitions(client) == []
    create_topics(client.host, {"later": 1})
    [part] = fetched_partitions(client)
    assert part.high_watermark > before
    assert len(part.records) > 0
    create_topics(client.host, {"another": 1})
    assert fetched_partitions(client) == []


def test_q27_without_a_commit_a_fetch_completes_after_max_wait(client: FrameClient) -> None:
    client.host.pass_time(WAIT_MS - 1)
    assert fetched_partitions(client) == []
    client.host.pass_time(1)
    [part] = fetched_partitions(client)
    assert len(part.records) == 0


def test_q27_a_closed_connection_ends_the_wait(client: FrameClient) -> None:
    assert fetched_partitions(client) == []
    [pending] = client.connection.responses
    pending.abandon()
    create_topics(client.host, {"later": 1})
    assert fetched_partitions(client) == []


def describe_topics(host: VirtualHost, *names: str, cursor: Cursor | None = None) -> list[Any]:
    client = FrameClient(host)
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)
    client.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    host.settle()
    [(_, answer)] = client.take()
    return list(answer.topics)


def test_q27_both_apis_describe_the_topic_by_name_alike() -> None:
    """R2: Kafka's tool for reassignments asks DescribeTopicPartitions for the voters."""
    host = make_host()
    create_topics(host, {"demo": 1})
    client = FrameClient(host)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=METADATA_TOPIC)])
    client.send(ApiKey.METADATA, 12, request)
    host.settle()
    [(_, answer)] = client.take()
    [other] = answer.topics
    [topic] = describe_topics(host, METADATA_TOPIC)
    assert (topic.error_code, topic.is_internal, topic.topic_id) == (0, True, other.topic_id)
    [partition], [other_partition] = topic.partitions, other.partitions
    assert [getattr(partition, it) for it in SHARED] == [
        getattr(other_partition, it) for it in SHARED
    ]
    assert tuple(partition.replica_nodes) == host.node.quorum.core.log.voter_set.ids


def test_q27_pages_have_the_topic_only_if_it_is_named() -> None:
    host = make_host()
    create_topics(host, {"demo": 1})
    assert METADATA_TOPIC not in [each.name for each in describe_topics(host)]
    named = describe_topics(host, "demo", METADATA_TOPIC)
    assert [(each.name, len(each.partitions)) for each in named] == [
        (METADATA_TOPIC, 1),
        ("demo", 1),
    ]
    after = Cursor(topic_name=METADATA_TOPIC, partition_index=1)
    [topic, _] = describe_topics(host, "demo", METADATA_TOPIC, cursor=after)
    assert [*topic.partitions] == []
