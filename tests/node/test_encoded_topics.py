"""Metadata responses use cached bytes, which are never outdated."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.node.encoded_topics import MAX_BYTES, EncodedTopics
from kraftlog.node.handlers.metadata import NOT_REQUESTED
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.node.frame_client import ask_settled, create_topics, make_host
from tests.virtual_host import VirtualHost

MANY = 5000


def topics_by_name(host: VirtualHost, version: int = 12, **fields: Any) -> dict[str, Any]:
    request = MetadataRequest(topics=None, **fields)
    response = ask_settled(host, ApiKey.METADATA, version, request)
    return {topic.name: topic for topic in response.topics}


def test_thousands_of_partitions_are_encoded_once_for_all_requests() -> None:
    """The encoding delays other clients once, not for each request."""
    host = make_host(many=MANY)
    topic_id = host.node.image.topic_ids["many"]
    first = topics_by_name(host)["many"]
    piece = host.node.encoded_topics.get(topic_id, (12, NOT_REQUESTED, ()))
    assert len(piece) > 20 * MANY
    assert topics_by_name(host)["many"] == first
    assert host.node.encoded_topics.get(topic_id, (12, NOT_REQUESTED, ())) is piece
    assert [part.partition_index for part in first.partitions] == list(range(MANY))


@pytest.mark.parametrize("version", [1, 8, 9, 12, 13])
def test_each_version_and_form_is_encoded_separately(version: int) -> None:
    host = make_host(demo=2)
    fresh = topics_by_name(make_host(demo=2), version)["demo"]
    for other in (1, 8, 10, 12, 13):
        topics_by_name(host, other, include_topic_authorized_operations=other >= 8)
    cached = topics_by_name(host, version)["demo"]
    cached.topic_id = fresh.topic_id  # topic ids are random
    assert cached == fresh


def test_a_change_invalidates_encoded_topics() -> None:
    host = make_host(demo=2, other=1)
    assert len(topics_by_name(host)["demo"].partitions) == 2
    change = CreatePartitionsTopic(name="demo", count=3, assignments=None)
    request = CreatePartitionsRequest(topics=[change], timeout_ms=1000, validate_only=False)
    ask_settled(host, ApiKey.CREATE_PARTITIONS, 3, request)
    assert len(topics_by_name(host)["demo"].partitions) == 3
    ask_settled(
        host, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000)
    )
    assert list(topics_by_name(host)) == ["other"]
    create_topics(host, {"demo": 1})
    assert len(topics_by_name(host)["demo"].partitions) == 1


def test_the_cache_is_bounded() -> None:
    pieces = EncodedTopics()
    large = bytes(MAX_BYTES // 4 + 1)
    for number in range(40):
        pieces.keep(bytes([number]) * 16, 12, large)
    cached = [number for number in range(40) if pieces.get(bytes([number]) * 16, 12) is not None]
    assert 1 <= len(cached) <= 3
    assert 39 in cached
