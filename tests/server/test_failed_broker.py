"""V2: a killed broker is fenced at once; the sessions here are too long to time out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The state of an open connection in /proc/net/tcp.
ESTABLISHED = "01"
#: Longer than the time limit of a test.
LONG_SESSION = "broker.session.timeout.ms=3600000"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    started = LocalCluster(tmp_path, "--override", LONG_SESSION)
    try:
        yield started
    finally:
        started.end()


def await_brokers(cluster: LocalCluster, expected: set[int]) -> None:
    """Wait until the cluster has exactly these unfenced brokers."""
    deadline = Deadline(LIMIT_S)
    while True:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            brokers = {broker.id for broker in client.describe_cluster().brokers}
        if brokers == expected:
            return
        assert not deadline.is_over, cluster.output()
        deadline.pause(0.05)


def await_probes(cluster: LocalCluster) -> None:
    """Wait until the active controller has a connection to both other brokers."""
    ports = [cluster.port(node) for node in cluster.rows]
    deadline = Deadline(LIMIT_S)
    while True:
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        remote_ports = {
            remote.partition(":")[2] for _, _, remote, state, *_ in rows if state == ESTABLISHED
        }
        if sum(f"{port:04X}" in remote_ports for port in ports) == len(ports) - 1:
            return
        assert not deadline.is_over, cluster.output()
        deadline.pause(0.05)


def test_v2_a_killed_broker_is_fenced_long_before_its_session_ends(cluster: LocalCluster) -> None:
    """C244: node 1 is killed twice: first as the active controller, then as another broker."""
    for _ in range(2):
        await_probes(cluster)
        cluster.kill(1)
        await_brokers(cluster, {2, 3})
        cluster.restart(1)
        await_brokers(cluster, {1, 2, 3})
    assert cluster.output().count("broker 1 is fenced: its connection has ended") == 2
    assert "is alive although" not in cluster.output()
