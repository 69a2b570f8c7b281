"""V1, V14: no response depends on an uncommitted decision, not even one that wrote no record."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.node.frame_client import creation, make_host
from tests.node.three_nodes import ThreeNodes

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

Responses = list[tuple[str, Any]]


def send_requests(host: VirtualHost) -> Responses:
    """Create a topic twice and send a heartbeat; only the first decision has records.

    Returns a list that gets each response with the name of its request.
    """
    responses: Responses = []
    me = host.node.image.brokers[host.node.config.node_id]
    heartbeat = BrokerHeartbeatRequest(
        broker_id=me.id,
        broker_epoch=me.epoch,
        current_metadata_offset=host.node.quorum.applied - 1,
        want_fence=False,
        want_shut_down=False,
    )
    for name, api_key, request in (
        ("create", ApiKey.CREATE_TOPICS, creation({"new": 1})),
        ("again", ApiKey.CREATE_TOPICS, creation({"new": 1})),
        ("heartbeat", ApiKey.BROKER_HEARTBEAT, heartbeat),
    ):

        def note(response: Any, _: object, name: str = name) -> None:
            responses.append((name, response))

        host.node.controller_channel.send(api_key, 7, request, note, host.now)
    return responses


def test_v1_a_refusal_waits_for_the_uncommitted_change_it_depends_on() -> None:
    host = make_host()
    responses = send_requests(host)
    assert not responses
    host.settle()
    assert [name for name, _ in responses] == ["create", "again", "heartbeat"]
    created, repeated = responses[0][1].topics[0], responses[1][1].topics[0]
    assert created.error_code == ErrorCode.NONE
    assert repeated.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    after: Responses = send_requests(host)
    assert [name for name, _ in after] == ["create", "again", "heartbeat"], (
        "a later request is answered at once"
    )


def test_v14_a_deposed_controller_does_not_answer_from_a_lost_change() -> None:
    """C239: the callback gets no response, so that the broker asks the next controller."""
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    host = cluster.host
    for node_id in [each for each, other in cluster.hosts.items() if other is not host]:
        cluster._stop(node_id, power=False)
    responses = send_requests(host)
    cluster.settle(10_000)
    assert not host.node.quorum.is_leader
    cluster.restart_missing()
    cluster.settle(30_000)
    assert responses == [("create", None), ("again", None), ("heartbeat", None)]
