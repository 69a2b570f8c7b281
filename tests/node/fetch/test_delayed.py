"""Delayed fetches: what each of them adds to the cost of a write, and when they complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.types import NEVER_MS
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.node.frame_client import FrameClient, ask_settled, make_host
from tests.node.test_requests import batch
from tests.node.turn_cost import count_calls

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

BATCH_SIZE = len(batch(b"x"))


def produce(host: VirtualHost, index: int) -> None:
    data = PartitionProduceData(index=index, records=batch(b"x"))
    topics = [TopicProduceData(name="demo", partition_data=[data])]
    request = ProduceRequest(acks=1, timeout_ms=9, topic_data=topics)
    assert ask_settled(host, ApiKey.PRODUCE, 9, request) is not None


def fetch_of(min_bytes: int, *indexes: int) -> FetchRequest:
    parts = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in indexes
    ]
    topics = [FetchTopic(topic="demo", partitions=parts)]
    return FetchRequest(max_wait_ms=9_000, min_bytes=min_bytes, session_epoch=-1, topics=topics)


def test_a_write_costs_little_per_waiting_fetch() -> None:
    host = make_host(demo=1)
    client = FrameClient(host)
    for _ in range(1_000):
        client.send(ApiKey.FETCH, 12, fetch_of(1 << 20, 0))
    assert count_calls(lambda: produce(host, 0)) < 10 * 1_000
    assert client.take() == []


@pytest.mark.parametrize("indexes", [(0,), (0, 1), (1, 0)])
def test_a_fetch_completes_with_the_write_that_reaches_min_bytes(indexes: tuple[int, ...]) -> None:
    host = make_host(demo=2)
    produce(host, 0)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch_of(4 * BATCH_SIZE, *indexes))
    for _ in range(2):
        produce(host, indexes[-1])
        assert client.take() == []
    produce(host, indexes[0])
    [(_, answer)] = client.take()
    [topic] = answer.responses
    assert sum([len(part.records) for part in topic.partitions]) == 4 * BATCH_SIZE


def test_a_fetch_completes_when_its_partition_is_deleted() -> None:
    host = make_host(demo=1)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch_of(4 * BATCH_SIZE, 0))
    request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, request)
    [(_, answer)] = client.take()
    [part] = answer.responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_delayed_fetch_needs_a_poll_only_at_its_deadline() -> None:
    host = make_host(demo=1)
    host.node.needs_poll, host.node.due_ms = False, NEVER_MS
    FrameClient(host).send(ApiKey.FETCH, 12, fetch_of(1, 0))
    assert not host.node.needs_poll
    assert host.node.due_ms == host.now.monotonic_ms + 9_000
