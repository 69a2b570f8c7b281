"""`__consumer_offsets` in a cluster of several brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tests.node.frame_client import ask_settled, create_topics, make_host
from tests.virtual_host import SETTINGS, VirtualHost

#: The value of `fenced` in a change of a broker's registration that fences it.
FENCE = 1


def three_brokers(settings: str = "") -> VirtualHost:
    """The host's broker, with these additional settings, and two more."""
    host = VirtualHost(settings=SETTINGS + settings)
    create_topics(host, {"demo": 1})
    for broker in (2, 3):
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=broker, security_protocol=0)
        register = RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=bytes([broker]) * 16,
            broker_epoch=50,
            end_points=[endpoint],
            features=(),
            rack=None,
            fenced=False,
            log_dirs=(),
        )
        host.node.replay([register], 100)
    return host


def find_coordinator(host: VirtualHost) -> Any:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    (coordinator,) = ask_settled(host, ApiKey.FIND_COORDINATOR, 4, request).coordinators
    return coordinator


def test_three_brokers_have_group_coordinators_by_default() -> None:
    host = three_brokers()
    assert find_coordinator(host).error_code == ErrorCode.NONE
    topic = host.node.image.topic_named(TOPIC)
    assert topic is not None
    replicas = [partition.replicas for partition in host.node.image.partitions_of(topic)]
    assert {len(each) for each in replicas} == {3}
    assert {each[0] for each in replicas} == {1, 2, 3}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_configured_replication_factor_of_the_offsets_topic_holds(factor: int) -> None:
    host = three_brokers(f"offsets.topic.replication.factor={factor}\n")
    assert find_coordinator(host).error_code == ErrorCode.NONE
    topic = host.node.image.topic_named(TOPIC)
    assert topic is not None
    replicas = [partition.replicas for partition in host.node.image.partitions_of(topic)]
    assert {len(each) for each in replicas} == {factor}


def test_a_single_broker_creates_one_replica_without_a_warning() -> None:
    host = make_host()
    assert find_coordinator(host).error_code == ErrorCode.NONE
    assert [line for line in host.log_lines if TOPIC in line] == []


def test_a_failure_to_create_the_offsets_topic_is_logged_once() -> None:
    host = make_host()
    fence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=FENCE)
    fence.broker_epoch = host.node.image.brokers[1].epoch
    host.node.replay([fence], 100)
    for _ in range(3):
        assert find_coordinator(host).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lines = [line for line in host.log_lines if TOPIC in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{TOPIC} is not created: INVALID_REPLICATION_FACTOR: ")
    assert "fenced" in lines[0]
