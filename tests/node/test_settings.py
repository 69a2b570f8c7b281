"""Broker settings for periodic and automatic work of a node."""

from __future__ import annotations

import pytest

from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.node.frame_client import create_topics
from tests.virtual_host import SETTINGS, VirtualHost

OTHER = 2


def host_with(settings: str) -> VirtualHost:
    """A node with a topic `demo`: its broker is the preferred leader, but another one leads."""
    host = VirtualHost(settings=SETTINGS + settings)
    create_topics(host, {"demo": 1})
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=1, security_protocol=0)
    register = RegisterBrokerRecord(
        broker_id=OTHER,
        incarnation_id=b"\x02" * 16,
        broker_epoch=50,
        end_points=[endpoint],
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(),
    )
    moved = PartitionChangeRecord(
        partition_id=0,
        topic_id=host.node.image.topic_ids["demo"],
        replicas=(1, OTHER),
        isr=(1, OTHER),
        leader=OTHER,
    )
    host.node.replay([register, moved], 100)
    return host


@pytest.mark.parametrize(("enabled", "leader"), [("true", 1), ("false", OTHER)])
def test_leaders_return_to_preferred_replicas_only_if_enabled(enabled: str, leader: int) -> None:
    host = host_with(
        f"auto.leader.rebalance.enable={enabled}\nleader.imbalance.check.interval.seconds=2\n"
    )
    for expected in (OTHER, leader):
        host.pass_time(1001)
        host.settle()
        (partition,) = host.node.image.partitions.values()
        assert partition.leader == expected


@pytest.mark.parametrize("enabled", [True, False])
def test_a_controlled_shutdown_moves_leaders_only_if_enabled(enabled: bool) -> None:
    host = host_with(f"controlled.shutdown.enable={str(enabled).lower()}\n")
    assert host.node.broker_lifecycle is not None
    host.node.shut_down(host.now)
    assert host.node.broker_lifecycle.wants_to_leave is enabled
    assert host.node.has_left is not enabled
