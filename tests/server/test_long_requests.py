"""Requests that take many turns, over sockets: in order, beside others, gone with the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.raw import RawClient, api_versions, frame

if TYPE_CHECKING:
    from tests.server.node_process import NodeProcess

MANY = 50_000


def long_request(number: int) -> bytes:
    names = [MetadataRequestTopic(name=f"unknown-{index}") for index in range(MANY)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    return frame(number, ApiKey.METADATA, request)


def test_a_client_gets_its_responses_in_order_and_others_in_between(node: NodeProcess) -> None:
    with RawClient(node.port) as client, RawClient(node.port) as other:
        client.send(long_request(1) + api_versions(2) + long_request(3) + api_versions(4))
        for _ in range(5):
            other.round_trip()
        answers = [client.answer() for _ in range(4)]
        assert [answer and answer[0] for answer in answers] == [1, 2, 3, 4]
        assert [answer and len(answer[1]) > MANY * 10 for answer in answers] == [1, 0, 1, 0]
    assert node.stop() == 0


def test_a_client_may_leave_while_its_request_is_worked_on(node: NodeProcess) -> None:
    with RawClient(node.port) as other:
        for _ in range(3):
            with RawClient(node.port) as client:
                client.send(long_request(1))
                other.round_trip()
            other.round_trip()
    assert node.stop() == 0
