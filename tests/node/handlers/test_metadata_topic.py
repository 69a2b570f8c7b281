"""Q27: the metadata log as a topic: delayed fetches, Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.fetch.test_delayed import produce
from tests.node.frame_client import FrameClient, create_topics, make_host

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

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


def fetch_together(
    host: VirtualHost, offset: int, **changes: Any
) -> tuple[FrameClient, FetchRequest]:
    """Send a fetch of the metadata log and of `demo`, from its start."""
    metadata = fetch(offset).topics[0]
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch(offset).replace(
        topics=[FetchTopic(topic="demo", partitions=[part]), metadata], **changes
    )
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, request)
    host.settle()
    return client, request


def parts_of(answer: Any) -> dict[str, Any]:
    return {topic.topic: topic.partitions[0] for topic in answer.responses}


def test_q27_the_log_is_fetched_together_with_other_topics() -> None:
    """Both have records: the response has both, and opens no session."""
    host = make_host()
    create_topics(host, {"demo": 1})
    produce(host, 0)
    client, _ = fetch_together(host, 0, session_epoch=INITIAL_EPOCH)
    [(_, answer)] = client.take()
    parts = parts_of(answer)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert {name: part.error_code for name, part in parts.items()} == {METADATA_TOPIC: 0, "demo": 0}
    assert parts[METADATA_TOPIC].high_watermark == host.node.quorum.core.log.high_watermark
    assert all(len(part.records) > 0 for part in parts.values())


def test_q27_the_log_takes_its_share_of_the_bytes() -> None:
    host = make_host()
    create_topics(host, {"demo": 1})
    produce(host, 0)
    client, _ = fetch_together(host, 0, max_bytes=1)
    [(_, answer)] = client.take()
    sizes = {name: len(part.records) for name, part in parts_of(answer).items()}
    assert sizes[METADATA_TOPIC] > 0
    assert sizes["demo"] == 0


@pytest.mark.parametrize("event", ["commit", "record", "max wait"])
def test_q27_a_fetch_of_both_waits_for_either(event: str) -> None:
    host = make_host()
    create_topics(host, {"demo": 1})
    end = host.node.quorum.core.log.high_watermark
    client, _ = fetch_together(host, end)
    assert client.take() == []
    if event == "commit":
        create_topics(host, {"later": 1})
    elif event == "record":
        produce(host, 0)
    else:
        host.pass_time(WAIT_MS)
    host.settle()
    [(_, answer)] = client.take()
    filled = [name for name, part in parts_of(answer).items() if len(part.records)]
    expected = {"commit": [METADATA_TOPIC], "record": ["demo"], "max wait": []}
    assert filled == expected[event]
    create_topics(host, {"another": 1})
    produce(host, 0)
    assert client.take() == []


def test_q27_a_session_is_left_for_a_fetch_of_both() -> None:
    """The consumer then repeats the fetch with all its partitions, without a session."""
    host = make_host()
    create_topics(host, {"demo": 1})
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    first = FetchRequest(
        topics=[FetchTopic(topic="demo", partitions=[part])], max_wait_ms=0, min_bytes=0
    ).replace(session_epoch=INITIAL_EPOCH)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, first)
    host.settle()
    [(_, answer)] = client.take()
    assert answer.session_id
    client, _ = fetch_together(host, 0, session_id=answer.session_id, session_epoch=1)
    [(_, answer)] = client.take()
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(host.node.fetch_sessions) == 0


def test_q27_an_offset_beyond_the_log_spoils_no_other_topic() -> None:
    host = make_host()
    create_topics(host, {"demo": 1})
    produce(host, 0)
    client, _ = fetch_together(host, 1 << 40)
    [(_, answer)] = client.take()
    parts = parts_of(answer)
    assert parts[METADATA_TOPIC].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(parts["demo"].records) > 0


def test_q27_a_closed_connection_ends_the_wait_for_both() -> None:
    host = make_host()
    create_topics(host, {"demo": 1})
    client, _ = fetch_together(host, host.node.quorum.core.log.high_watermark)
    [pending] = client.connection.responses
    pending.abandon()
    create_topics(host, {"later": 1})
    produce(host, 0)
    assert client.take() == []
