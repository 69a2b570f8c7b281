"""V2: the connections by which the active controller notices that a broker has died."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kraftlog.effects import ConnectionRefused, RequestFailed, ResponseReceived, SendRequest
from kraftlog.node.channels import PROBE_CHANNEL
from kraftlog.node.controller.broker_probes import (
    FIRST_REQUESTS_MS,
    LONGEST_RETRY_MS,
    RETRY_MS,
    BrokerProbes,
)
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.node.frame_client import FrameClient
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import SETTINGS, VirtualHost


class ProbedCluster(ThreeNodes):
    """Three nodes; the test responds to the probes of the active controller."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.loss = 0.0
        #: The last probe of each broker.
        self.probes: dict[int, SendRequest] = {}
        send = self.network._send

        def send_others(source: int, effect: SendRequest) -> None:
            if effect.channel != PROBE_CHANNEL:
                send(source, effect)
            elif source == self.leader.config.node_id:
                self.probes[effect.peer] = effect

        self.network._send = send_others  # type: ignore[method-assign]  # to keep the probes
        self.elect_again()

    def elect_again(self) -> None:
        """Restart the leader, so that a newly elected one sends its first probes."""
        leader = self._leader()
        leader.node.quorum.shut_down(leader.now)
        self._stop(leader.node.config.node_id, power=False)
        self.restart_missing()
        self.settle(20_000)

    @property
    def leader(self) -> Any:
        return self._leader().node

    def send_report(self, report: Any) -> None:
        host = self._leader()
        host.node.handle(report, host.now)
        self.settle(100)

    def respond_to_probes(self) -> None:
        """Respond to the last probe of each broker."""
        for probe in list(self.probes.values()):
            self.send_report(ResponseReceived(PROBE_CHANNEL, probe.peer, probe.number, object()))
        self.probes.clear()

    def fenced(self) -> set[int]:
        return {broker.id for broker in self.leader.image.brokers.values() if broker.fenced}

    @property
    def now_ms(self) -> int:
        return self._leader().now.monotonic_ms


@pytest.fixture
def cluster() -> ProbedCluster:
    return ProbedCluster()


def others(cluster: ProbedCluster) -> list[int]:
    """The nodes other than the active controller."""
    return [i for i in NODES if i != cluster.leader.config.node_id]


def is_fenced_by_connection(cluster: ProbedCluster, broker: int) -> bool:
    lines = [line for host in cluster.hosts.values() for line in host.log_lines]
    return f"broker {broker} is fenced: its connection has ended, and it refuses another" in lines


def test_v2_the_active_controller_probes_every_other_broker(cluster: ProbedCluster) -> None:
    probed = {(each.peer, each.host, each.port) for each in cluster.probes.values()}
    assert probed == {(i, f"127.0.0.{i}", 9092) for i in others(cluster)}


def test_v2_a_failed_probe_is_repeated_with_backoff(cluster: ProbedCluster) -> None:
    victim = others(cluster)[0]
    wait_ms, attempts = RETRY_MS, 0
    while wait_ms <= LONGEST_RETRY_MS:
        probe = cluster.probes.pop(victim)
        cluster.send_report(RequestFailed(PROBE_CHANNEL, victim, probe.number))
        cluster.settle(wait_ms)
        wait_ms, attempts = 2 * wait_ms, attempts + 1
    assert attempts > 3
    cluster.respond_to_probes()
    cluster.settle(2 * LONGEST_RETRY_MS)
    assert victim not in cluster.probes, "the connection stays"


def test_v2_the_end_of_another_connection_fences_no_broker(cluster: ProbedCluster) -> None:
    cluster.respond_to_probes()
    victim = others(cluster)[0]
    cluster.send_report(ConnectionRefused("replica", victim, cluster.now_ms))
    assert not is_fenced_by_connection(cluster, victim)


def test_v2_a_refused_probe_fences_only_after_one_was_answered(cluster: ProbedCluster) -> None:
    victim = others(cluster)[0]
    cluster.send_report(ConnectionRefused(PROBE_CHANNEL, victim, cluster.now_ms))
    assert not is_fenced_by_connection(cluster, victim)
    cluster.settle(RETRY_MS)
    cluster.respond_to_probes()
    cluster.send_report(ConnectionRefused(PROBE_CHANNEL, victim, cluster.now_ms))
    assert is_fenced_by_connection(cluster, victim)


def test_v2_the_end_of_the_quorums_connection_fences_the_broker(cluster: ProbedCluster) -> None:
    victim = others(cluster)[0]
    cluster.send_report(ConnectionRefused("quorum", victim, cluster.now_ms))
    assert is_fenced_by_connection(cluster, victim)


def has_probes(host: VirtualHost) -> bool:
    return any(isinstance(part, BrokerProbes) for part in host.node.parts)


def test_v2_a_setting_turns_the_probes_off() -> None:
    off = "kraftlog.fence.on.connection.refused=false\n"
    host = VirtualHost(settings=SETTINGS + off)
    assert not has_probes(host)
    host.node.handle(ConnectionRefused("quorum", 1, 0), host.now)
    assert has_probes(VirtualHost())


def kill_the_leader(cluster: ProbedCluster) -> int:
    """Kill the leader; both followers learn that it is down before one of them is elected."""
    leader: int = cluster.leader.config.node_id
    cluster._stop(leader, power=False)
    for host in cluster.hosts.values():
        host.node.handle(ConnectionRefused("quorum", leader, host.now.monotonic_ms), host.now)
    return leader


def response_to(client: FrameClient, cluster: ProbedCluster) -> Any:
    for _ in range(10_000):
        if responses := client.take():
            [(_, response)] = responses
            return response
        cluster.settle(1)
    pytest.fail("no response within ten seconds")


def test_v2_requests_that_waited_are_decided_before_a_broker_is_fenced(
    cluster: ProbedCluster,
) -> None:
    kill_the_leader(cluster)
    clients = [FrameClient(host) for host in cluster.hosts.values()]
    for client in clients:
        topic = CreatableTopic(
            name=f"topic-{client.host.node.config.node_id}",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
    for client in clients:
        assert response_to(client, cluster).topics[0].error_code == 0
    assert cluster.fenced() == set(), "changing many partitions would have delayed the responses"
    cluster.settle(FIRST_REQUESTS_MS)
    assert cluster.fenced() != set()


def test_v2_the_next_controller_fences_the_previous_one(cluster: ProbedCluster) -> None:
    leader = kill_the_leader(cluster)
    cluster.settle(3000)
    assert cluster.leader.config.node_id != leader
    assert cluster.fenced() == {leader}, "before its session of nine seconds ends"
