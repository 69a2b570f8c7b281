"""V24: Metadata that would name a dead leader waits for the election, and for no other request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import ConnectionRefused, RequestFailed
from kraftlog.node.broker.failed_leaders import LOST_MS, NAMED_MS, WAIT_MS
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.messages.metadata_records import (
    FenceBrokerRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from tests.node.frame_client import FrameClient
from tests.node.test_leaders import OTHER, host_led_by_other

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

BROKER_EPOCH = 50


def down(host: VirtualHost, channel: str = "replication-0") -> None:
    host.node.handle(ConnectionRefused(channel, OTHER, 0), host.now)


def lost(host: VirtualHost, *, is_aborted: bool = False) -> None:
    failed = RequestFailed("replication-0", OTHER, 1, "reset by peer", is_aborted)
    host.node.handle(failed, host.now)


def pass_ms(host: VirtualHost, ms: int) -> None:
    host.now = host.now.replace(monotonic_ms=host.now.monotonic_ms + ms)
    host.settle()


def ask(client: FrameClient, *topics: str) -> None:
    names = [MetadataRequestTopic(name=name) for name in topics]
    client.send(ApiKey.METADATA, 13, MetadataRequest(topics=names))
    client.host.settle()


def answers(client: FrameClient) -> list[Any]:
    client.host.settle()
    return [response for _, response in client.take()]


def elected(host: VirtualHost) -> list[Any]:
    topic_id = host.node.image.topic_ids["demo"]
    return [
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,), leader=1),
        FenceBrokerRecord(id=OTHER, epoch=BROKER_EPOCH),
    ]


@pytest.mark.parametrize("channel", ["replication-0", "quorum"])
def test_v24_metadata_waits_for_the_successor_of_a_dead_leader(channel: str) -> None:
    """V24: the election ends the wait; a client that was told the old leader asks much later."""
    host = host_led_by_other()
    down(host, channel)
    client = FrameClient(host)
    ask(client, "demo")
    assert answers(client) == []
    host.node.replay(elected(host), 101)
    (response,) = answers(client)
    assert response.topics[0].partitions[0].leader_id == 1
    assert [broker.node_id for broker in response.brokers] == [1, OTHER]


def test_fenced_broker_is_named_a_little_longer() -> None:
    """librdkafka loses the leaders of an answer that no longer names the broker it leaves."""
    host = host_led_by_other()
    client = FrameClient(host)
    host.node.replay(elected(host), 101)
    for ids in ([1, OTHER], [1]):
        ask(client, "demo")
        (response,) = answers(client)
        assert [broker.node_id for broker in response.brokers] == ids
        assert response.topics[0].partitions[0].leader_id == 1
        assert response.topics[0].partitions[0].offline_replicas == (OTHER,)
        pass_ms(host, NAMED_MS)


def test_v24_metadata_waits_no_longer_than_its_bound() -> None:
    host = host_led_by_other()
    down(host)
    client = FrameClient(host)
    ask(client, "demo")
    assert answers(client) == []
    pass_ms(host, WAIT_MS)
    (response,) = answers(client)
    assert response.topics[0].partitions[0].leader_id == OTHER
    down(host)  # the fetcher has tried again: that is no news
    ask(client, "demo")
    assert len(answers(client)) == 1


def test_v24_metadata_waits_shorter_after_a_mere_loss_of_the_connection() -> None:
    """A process that ends accepts connections for a moment after it has closed the others."""
    host = host_led_by_other()
    lost(host, is_aborted=True)
    client = FrameClient(host)
    ask(client, "demo")
    assert len(answers(client)) == 1, "this broker itself has given up the request"
    lost(host)
    ask(client, "demo")
    assert answers(client) == []
    pass_ms(host, LOST_MS)
    assert len(answers(client)) == 1
    down(host)
    ask(client, "demo")
    assert answers(client) == [], "now it is refused: an election will come"
    pass_ms(host, WAIT_MS)
    assert len(answers(client)) == 1


def test_v24_metadata_waits_for_nothing_else() -> None:
    """Only for partitions of the dead broker, and not once it is fenced or unregistered."""
    host = host_led_by_other()
    client = FrameClient(host)
    ask(client, "demo")
    assert len(answers(client)) == 1, "nothing is known of a failure"
    down(host)
    ask(client)
    assert len(answers(client)) == 1, "no topic is named"
    ask(client, "demo")
    unregistered = UnregisterBrokerRecord(broker_id=OTHER, broker_epoch=BROKER_EPOCH)
    host.node.replay([unregistered], 101)
    assert len(answers(client)) == 1
    down(host)
    ask(client, "demo")
    assert len(answers(client)) == 1


def test_metadata_of_a_closed_connection_is_not_sent() -> None:
    host = host_led_by_other()
    down(host)
    client = FrameClient(host)
    ask(client, "demo")
    (pending,) = client.connection.responses
    pending.abandon()
    host.node.replay(elected(host), 101)
    host.settle()
    assert client.take() == []
