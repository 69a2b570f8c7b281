"""V2, V3, V5: three nodes, each broker and controller: sessions, shutdowns, forwarded requests."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import alter_partition_reassignments as alter_reassignments
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest
from kraftlog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.frame_client import FrameClient
from tests.node.three_nodes import NODES, ThreeNodes, settings_of
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

SESSION_MS = 9000
#: Enough for any exchange that does not wait for a timeout.
SOON_MS = 500


@pytest.fixture
def cluster() -> ThreeNodes:
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    return cluster


def ask(cluster: ThreeNodes, node_id: int, key: int, version: int, request: Message) -> Any:
    client = FrameClient(cluster.hosts[node_id])
    client.send(key, version, request)
    cluster.settle(SOON_MS)
    ((_, response),) = client.take()
    return response


def leader_of(cluster: ThreeNodes) -> int:
    (leader,) = [i for i, host in cluster.hosts.items() if host.node.quorum.is_leader]
    return leader


def follower_of(cluster: ThreeNodes) -> int:
    return min(i for i in cluster.hosts if i != leader_of(cluster))


def fenced(cluster: ThreeNodes) -> set[int]:
    """The brokers that the active controller has fenced."""
    brokers = cluster.hosts[leader_of(cluster)].node.image.brokers.values()
    return {broker.id for broker in brokers if broker.fenced}


def leads(cluster: ThreeNodes, broker_id: int) -> bool:
    image = cluster.hosts[leader_of(cluster)].node.image
    return any(each.leader == broker_id for each in image.partitions.values())


def shut_down(cluster: ThreeNodes, node_id: int) -> None:
    node = cluster.hosts[node_id].node
    assert leads(cluster, node_id)
    node.shut_down(cluster.hosts[node_id].now)
    cluster.settle(SOON_MS)
    assert node.has_left, "the node does not wait for the next heartbeat"
    cluster.loss = 1.0  # the stopped node sends nothing more
    cluster._stop(node_id, power=False)
    cluster.loss = 0.0


def test_v3_a_controlled_shutdown_moves_leadership_and_ends_soon(cluster: ThreeNodes) -> None:
    follower = follower_of(cluster)
    shut_down(cluster, follower)
    assert fenced(cluster) == {follower}
    assert not leads(cluster, follower)
    cluster.restart_missing()
    cluster.settle(SESSION_MS // 2)
    assert not fenced(cluster)
    assert leads(cluster, follower)


def test_v3_a_controlled_shutdown_of_the_controller_moves_both_roles(
    cluster: ThreeNodes,
) -> None:
    leader = leader_of(cluster)
    shut_down(cluster, leader)
    cluster.settle(SOON_MS)
    assert leader_of(cluster) != leader
    assert fenced(cluster) == {leader}
    assert not leads(cluster, leader)


def test_v3_all_three_nodes_shut_down_together(cluster: ThreeNodes) -> None:
    for host in cluster.hosts.values():
        host.node.shut_down(host.now)
    for _ in range(SOON_MS // 10):
        for node_id in [i for i, host in cluster.hosts.items() if host.node.has_left]:
            cluster._stop(node_id, power=False)
        cluster.settle(10)
    assert not cluster.hosts


def test_v2_a_broker_is_fenced_when_its_session_has_timed_out(cluster: ThreeNodes) -> None:
    victim = follower_of(cluster)
    cluster._stop(victim, power=False)
    cluster.settle(SESSION_MS + 1000)
    assert fenced(cluster) == {victim}
    assert not leads(cluster, victim)


@pytest.mark.parametrize("node_id", NODES)
def test_v1_admin_requests_to_any_broker_are_forwarded(cluster: ThreeNodes, node_id: int) -> None:
    elected = ask(
        cluster,
        node_id,
        ApiKey.ELECT_LEADERS,
        2,
        ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000),
    )
    assert (elected.error_code, list(elected.replica_election_results)) == (0, [])
    cancel = alter_reassignments.ReassignableTopic(
        name="demo",
        partitions=[alter_reassignments.ReassignablePartition(partition_index=0, replicas=None)],
    )
    request = alter_reassignments.AlterPartitionReassignmentsRequest(
        topics=[cancel], timeout_ms=1000
    )
    altered = ask(cluster, node_id, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    code = altered.responses[0].partitions[0].error_code
    assert (altered.error_code, code) == (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    listed = ask(
        cluster,
        node_id,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None),
    )
    assert (listed.error_code, list(listed.topics)) == (0, [])


def test_the_controller_id_of_metadata_names_a_live_broker(cluster: ThreeNodes) -> None:
    victim = leader_of(cluster)
    cluster._stop(victim, power=False)
    cluster.settle(2 * SESSION_MS)
    for node_id in list(cluster.hosts):
        request = MetadataRequest(
            topics=[],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        metadata = ask(cluster, node_id, ApiKey.METADATA, 12, request)
        assert metadata.controller_id in cluster.hosts
        assert {broker.node_id for broker in metadata.brokers} == set(cluster.hosts)


def test_v3_a_node_that_never_registered_stops_at_once() -> None:
    """Its quorum has no majority, so no shutdown request would get a response."""
    host = VirtualHost(settings=settings_of(1, 1 << 20), settled=False, peers=UnreachablePeers())
    host.pass_time(100)
    host.node.shut_down(host.now)
    assert host.node.has_left


class UnreachablePeers:
    """Peers that never respond."""

    def send(self, effect: Any) -> None:
        """Drop the request."""


def test_a_topic_created_on_first_use_has_the_brokers_defaults(cluster: ThreeNodes) -> None:
    """As in Kafka: the defaults are those of the requested broker, not of the controller."""
    follower = follower_of(cluster)
    cluster.own_settings[follower] = "num.partitions=2\ndefault.replication.factor=3\n"
    shut_down(cluster, follower)
    cluster.restart_missing()
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    ask(cluster, follower, ApiKey.METADATA, 9, request)
    image = cluster.hosts[follower].node.image
    replica_sets = [
        each.replicas
        for each in image.partitions.values()
        if each.topic_id == image.topic_ids["new"]
    ]
    assert [sorted(replicas) for replicas in replica_sets] == [[*NODES]] * 2
