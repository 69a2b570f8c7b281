"""Requests that take many turns, over sockets: order, other clients, disconnects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.raw import VERSIONS, RawClient, api_versions, frame
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.server.node_process import NodeProcess

MANY = 50_000


def long_request(number: int) -> bytes:
    names = [MetadataRequestTopic(name=f"unknown-{index}") for index in range(MANY)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    return frame(number, ApiKey.METADATA, request)


def creation(topic: str, count: int) -> CreateTopicsRequest:
    new_topic = CreatableTopic(
        name=topic, num_partitions=count, replication_factor=1, assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=[new_topic], timeout_ms=1000 * LIMIT_S)


def deletion(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000 * LIMIT_S)


def code_of(client: RawClient, api_key: int) -> int:
    """The error code of the only topic in the next response."""
    received = client.next_response()
    assert received is not None
    api = APIS[api_key]
    body = received[1][1:]  # after the empty tagged fields of the header
    response: Any = decode(api.response(), VERSIONS[api_key], body)
    [topic] = response.topics if api_key == ApiKey.CREATE_TOPICS else response.responses
    return int(topic.error_code)


def test_large_requests_are_answered_in_order_while_others_are_served(node: NodeProcess) -> None:
    with RawClient(node.port) as client, RawClient(node.port) as other:
        client.send(long_request(1) + api_versions(2) + long_request(3) + api_versions(4))
        for _ in range(5):
            other.round_trip()
        responses = [client.next_response() for _ in range(4)]
        assert [response and response[0] for response in responses] == [1, 2, 3, 4]
        assert [response and len(response[1]) > MANY * 10 for response in responses] == [1, 0, 1, 0]
    assert node.stop() == 0


def test_a_client_may_disconnect_during_a_large_request(node: NodeProcess) -> None:
    with RawClient(node.port) as other:
        for _ in range(3):
            with RawClient(node.port) as client:
                client.send(long_request(1))
                other.round_trip()
            other.round_trip()
    assert node.stop() == 0


def test_large_topics_are_created_and_deleted_beside_other_requests(node: NodeProcess) -> None:
    """Two clients each create and delete a topic; a third client is served meanwhile."""
    with (
        RawClient(node.port) as first,
        RawClient(node.port) as second,
        RawClient(node.port) as other,
    ):
        for client, name in ((first, "large-1"), (second, "large-2")):
            client.send(
                frame(1, ApiKey.CREATE_TOPICS, creation(name, 2_000))
                + frame(2, ApiKey.DELETE_TOPICS, deletion(name))
                + frame(3, ApiKey.DELETE_TOPICS, deletion(name))
            )
        for _ in range(5):
            other.round_trip()
        other.send(frame(7, ApiKey.CREATE_TOPICS, creation("small", 1)))
        assert code_of(other, ApiKey.CREATE_TOPICS) == 0
        for client in (first, second):
            assert code_of(client, ApiKey.CREATE_TOPICS) == 0
            assert code_of(client, ApiKey.DELETE_TOPICS) == 0
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert code_of(client, ApiKey.DELETE_TOPICS) == unknown
    assert node.stop() == 0
