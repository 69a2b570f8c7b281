"""V5: requests that waited for a new controller follow the broker's registration or heartbeat."""

from __future__ import annotations

from kraftlog import effects
from kraftlog.node.channels import CONTROLLER_CHANNEL as CHANNEL
from kraftlog.node.channels import HEARTBEAT_CHANNEL
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_registration import BrokerRegistrationResponse
from tests.node.quorum.test_driver import create, host_with_forwarded, take_forwarded


def test_v5_a_broker_registers_before_it_forwards_requests() -> None:
    """The new active controller would not create a topic on an unregistered or fenced broker."""
    host, _, peers = host_with_forwarded(ApiKey.CREATE_TOPICS, 7, create("t"))
    host.node.handle(effects.RequestFailed(CHANNEL, 2, take_forwarded(peers)), host.now)
    host.turn()
    peers.requests.clear()
    host.node.leader_changed(2, host.node.quorum.epoch + 1)
    host.turn()
    (first,) = [it for it in peers.requests if it.channel in {CHANNEL, HEARTBEAT_CHANNEL}]
    assert (first.channel, first.api_key) == (HEARTBEAT_CHANNEL, ApiKey.BROKER_REGISTRATION)
    response = BrokerRegistrationResponse(error_code=0, broker_epoch=7)
    host.node.handle(
        effects.ResponseReceived(HEARTBEAT_CHANNEL, 2, first.number, response), host.now
    )
    host.turn()
    forwarded = [it.api_key for it in peers.requests if it.channel == CHANNEL]
    assert forwarded == [ApiKey.CREATE_TOPICS]
