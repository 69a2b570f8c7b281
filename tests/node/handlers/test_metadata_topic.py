"""Q27: how long a consumer's fetch of the metadata log waits."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.node.fetch_sessions import LAST
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.node.frame_client import FrameClient, create_topics, make_host

WAIT_MS = 400


def fetch(offset: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=METADATA_TOPIC, partitions=[part])
    return FetchRequest(topics=[topic], max_wait_ms=WAIT_MS, min_bytes=1, session_epoch=LAST)


@pytest.fixture
def client() -> FrameClient:
    """One that has asked for the next record."""
    host = make_host()
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(host.node.quorum.core.log.high_watermark))
    return client


def answers(client: FrameClient) -> list[Any]:
    client.host.settle()
    return [answer.responses[0].partitions[0] for _, answer in client.take()]


def test_q27_a_fetch_at_the_end_waits_for_the_next_commit(client: FrameClient) -> None:
    before = client.host.node.quorum.core.log.high_watermark
    assert answers(client) == []
    create_topics(client.host, {"later": 1})
    [part] = answers(client)
    assert part.high_watermark > before
    assert len(part.records) > 0
    create_topics(client.host, {"another": 1})
    assert answers(client) == []


def test_q27_without_a_commit_it_is_answered_when_its_time_is_over(client: FrameClient) -> None:
    client.host.pass_time(WAIT_MS - 1)
    assert answers(client) == []
    client.host.pass_time(1)
    [part] = answers(client)
    assert len(part.records) == 0


def test_q27_a_closed_connection_ends_the_wait(client: FrameClient) -> None:
    assert answers(client) == []
    [slot] = client.connection.slots
    slot.abandon()
    create_topics(client.host, {"later": 1})
    assert answers(client) == []
