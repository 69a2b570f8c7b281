"""`kraftlog start --nodes N`: one command starts and stops a whole cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from tests.ports import free_ports
from tests.server.clients import consume, produce_all
from tests.server.local_cluster import ADDRESS, DIRECTORY, ROLES, LocalCluster, await_end
from tests.server.node_process import NodeProcess, read_line
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    started = LocalCluster(tmp_path)
    try:
        yield started
    finally:
        started.end()


def registered_brokers(servers: str, count: int) -> list[int]:
    """The ids of the registered brokers, once there are `count`."""
    deadline = Deadline(LIMIT_S)
    with Client(servers, timeout_s=LIMIT_S) as client:
        while len(brokers := client.describe_cluster().brokers) != count:
            assert not deadline.is_over, brokers
    return sorted(broker.id for broker in brokers)


def test_one_command_starts_a_cluster_and_finds_it_again(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    assert [row[ROLES] for row in cluster.rows.values()] == ["broker,controller"] * 3
    assert cluster.servers == ",".join([row[ADDRESS] for row in cluster.rows.values()])
    assert [row[DIRECTORY] for row in cluster.rows.values()] == [
        f"{cluster.data}/node-{number}" for number in (1, 2, 3)
    ]
    assert registered_brokers(cluster.servers, 3) == [1, 2, 3]
    with Client(cluster.servers, timeout_s=LIMIT_S) as client:
        cluster_id = client.describe_cluster().id
        client.create_topic("demo", 1)
    produce_all(cluster.servers, [b"one", b"two"])
    pids = [cluster.pid(node) for node in cluster.rows]
    assert cluster.stop(signal.SIGINT) == 0
    for pid in pids:
        await_end(pid)
    restarted = LocalCluster(tmp_path)
    try:
        assert restarted.servers == cluster.servers
        assert consume(restarted.servers, 2) == [b"one", b"two"]
        with Client(restarted.servers, timeout_s=LIMIT_S) as client:
            assert client.describe_cluster().id == cluster_id
        assert restarted.stop() == 0
        assert "Traceback" not in restarted.output()
    finally:
        restarted.end()


def test_a_node_that_dies_is_reported_and_can_be_started_again(cluster: LocalCluster) -> None:
    pid = cluster.pid(2)
    cluster.kill(2)
    cluster.await_line(
        f"kraftlog: node 2 (pid {pid}) was ended by SIGKILL; 2 of 3 nodes still run. "
        f"To start it again: kraftlog start {cluster.file(2)}\n"
    )
    with Client(cluster.address(3), timeout_s=LIMIT_S) as client:
        client.create_topic("after", 1)
    cluster.restart(2)
    assert registered_brokers(cluster.servers, 3) == [1, 2, 3]
    assert cluster.stop() == 1, "a node has died"


def test_a_whole_cluster_that_was_killed_starts_at_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """V5: no broker waits until the session of its previous process has ended."""
    pids = [cluster.pid(node) for node in cluster.rows]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert cluster.wait() == 1
    restarted = LocalCluster(tmp_path, "--override", "broker.session.timeout.ms=600000")
    try:
        assert registered_brokers(restarted.servers, 3) == [1, 2, 3]
        assert "DUPLICATE_BROKER_REGISTRATION" not in restarted.output()
    finally:
        restarted.end()


def test_a_second_signal_kills_the_nodes(cluster: LocalCluster) -> None:
    cluster.process.send_signal(signal.SIGTERM)
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.wait() == 130
    for node in cluster.rows:
        await_end(cluster.pid(node))


def test_nodes_stop_when_their_supervisor_is_killed(cluster: LocalCluster) -> None:
    cluster.process.kill()
    for node in cluster.rows:
        await_end(cluster.pid(node))


def test_a_paused_node_does_not_delay_the_stop(cluster: LocalCluster) -> None:
    os.kill(cluster.pid(2), signal.SIGSTOP)
    assert cluster.stop() == 0


def test_a_node_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    first, taken, _ = free_ports(3)
    with socket.create_server(("127.0.0.1", taken)):
        command = [sys.executable, "-m", "kraftlog", "start", "--nodes", "3"]
        options = ["--data", str(tmp_path / "data"), "--port", str(first)]
        done = subprocess.run(
            [*command, *options], check=False, capture_output=True, text=True, timeout=LIMIT_S
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"PLAINTEXT://127.0.0.1:{taken}: Address already in use" in done.stderr
    assert "before the cluster was ready: the other nodes are stopped" in done.stderr


def test_a_cluster_grows_by_brokers(tmp_path: Path) -> None:
    small = LocalCluster(tmp_path, nodes=1)
    try:
        assert small.stop() == 0
    finally:
        small.end()
    grown = LocalCluster(tmp_path, nodes=3)
    try:
        assert [row[ROLES] for row in grown.rows.values()] == [
            "broker,controller",
            "broker",
            "broker",
        ]
        assert registered_brokers(grown.servers, 3) == [1, 2, 3]
        assert grown.stop() == 0
    finally:
        grown.end()


def test_a_node_stops_when_its_standard_input_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraftlog", "start", "--port", "0", "--stop-at-eof"]
    node = subprocess.Popen(
        [*command, "--data", str(tmp_path)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert node.stdin is not None
    assert node.stdout is not None
    try:
        assert read_line(node.stdout).startswith("kraftlog ready on ")
        node.stdin.close()
        assert node.wait(LIMIT_S) == 0
    finally:
        node.kill()
        node.wait()
        node.stdout.close()


def test_a_single_node_refuses_the_directory_of_a_cluster(cluster: LocalCluster) -> None:
    with pytest.raises(AssertionError, match="holds the nodes of a cluster"):
        NodeProcess(cluster.data, errors=cluster.errors)
