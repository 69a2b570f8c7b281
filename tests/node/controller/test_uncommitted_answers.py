"""V1, V14: no response depends on an uncommitted decision, not even one without records."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.node.frame_client import creation, make_host
from tests.node.lives_of_three import LifeOfThree

if TYPE_CHECKING:
    from kraftlog.simulator.host import VirtualHost

Outcomes = list[tuple[str, Any]]


def send_requests(host: VirtualHost) -> Outcomes:
    """Create a topic twice and send a heartbeat; only the first decision has records."""
    outcomes: Outcomes = []
    active_controller = host.node.active_controller
    assert active_controller is not None
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
            outcomes.append((name, response))

        active_controller.decide(api_key, 7, request, note, host.now)
    return outcomes


def test_v1_a_refusal_waits_for_the_uncommitted_change_it_depends_on() -> None:
    host = make_host()
    outcomes = send_requests(host)
    assert not outcomes
    host.settle()
    assert [name for name, _ in outcomes] == ["create", "again", "heartbeat"]
    created, again = outcomes[0][1].topics[0], outcomes[1][1].topics[0]
    assert created.error_code == ErrorCode.NONE
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    after: Outcomes = send_requests(host)
    assert [name for name, _ in after] == ["create", "again", "heartbeat"], (
        "a later request is answered at once"
    )


def test_v14_a_deposed_controller_does_not_answer_from_a_lost_change() -> None:
    """C239: it responds with an error, without the outcome of the lost decision."""
    life = LifeOfThree(Random(1))
    life.loss = 0.0
    host = life.host
    for node_id in [each for each, other in life.hosts.items() if other is not host]:
        life._stop(node_id, power=False)
    outcomes = send_requests(host)
    life.settle(10_000)
    assert not host.node.quorum.is_leader
    life.restart_missing()
    life.settle(30_000)
    assert outcomes == [("create", None), ("again", None), ("heartbeat", None)]
