"""Three nodes each of kraftlog, Kafka, etcd and ZooKeeper: how they start, lead and are loaded."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tests.ports import free_ports

from bench.beside import frame_client
from bench.beside.frame_client import LOOPBACK
from bench.beside.peers import SMALL_HEAP, Peer, java, write
from bench.beside.programs import output, parse_probe, probe
from bench.beside.rows import KAFKA, KRAFTLOG
from bench.cluster.nodes import IDS, Cluster, metadata, wait_until
from bench.quorums import programs
from kraftlog.client.deadline import Deadline
from kraftlog.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.beside.programs import ProbeResult

ETCD, ZOOKEEPER, KAFKA_WITH_ZOOKEEPER = "etcd", "zookeeper", "kafka-zk"
PEERS = (KRAFTLOG, ETCD, ZOOKEEPER, KAFKA, KAFKA_WITH_ZOOKEEPER)
TOPIC = "changed"
#: The limit of anything that is waited for.
WITHIN_S = 120
#: More commits than fit into any time.
UNLIMITED = 1_000_000
#: How long the leader leads before it is killed, and its clients go on afterwards.
BEFORE_KILL_S, AFTER_KILL_S = 2.0, 10.0

ZOOKEEPER_CONFIG = """\
tickTime=2000
initLimit=10
syncLimit=5
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=*
maxClientCnxns=0
"""
BROKER_CONFIG = """\
broker.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}
zookeeper.connect={zookeeper}
offsets.topic.replication.factor=3
"""


class Brokers:
    """Three combined nodes of kraftlog or Kafka; a change is that of a topic's setting.

    As the other ensembles: `commit` makes `count` changes in total, one at a time per client, or as
    many as fit into `seconds`; `failover_ms` kills the leader for good.
    """

    def __init__(self, name: str, folder: str) -> None:
        self.folder = folder
        self.cluster = ClusterWithMetrics(name, folder)

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.cluster.running():
            self.cluster.create_topic(TOPIC)
            yield

    def commit(self, clients: int, count: int, seconds: float) -> ProbeResult:
        port = self.cluster.nodes[self.cluster.controller()].port
        return commit_changes(port, self.folder, clients, count, seconds)

    def failover_ms(self) -> float:
        active = self.cluster.controller()
        others = [node.port for node_id, node in self.cluster.nodes.items() if node_id != active]
        return failover_ms(self.cluster.nodes[active], others)

    def latencies(self) -> dict[str, float]:
        """Milliseconds of a change on the active controller: see `latency_averages`."""
        if self.cluster.name == KAFKA:
            return {}
        port = self.cluster.http_ports[self.cluster.controller()]
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics") as response:
            return latency_averages(response.read().decode())


class ClusterWithMetrics(Cluster):
    """Nodes of kraftlog that serve their metrics."""

    def __init__(self, name: str, folder: str) -> None:
        self.http_ports = dict(zip(IDS, free_ports(len(IDS)), strict=True))
        super().__init__(name, folder)

    def command_of(self, node_id: int, command: list[str]) -> list[str]:
        if self.name == KAFKA:
            return command
        return [*command, "--http-port", str(self.http_ports[node_id])]


def latency_averages(text: str) -> dict[str, float]:
    """The averages of the quorum's latencies in the text of /metrics."""
    names = {
        "change": "kraftlog_quorum_change_latency_avg",
        "flush": "kraftlog_quorum_flush_latency_avg",
        "apply": "kraftlog_quorum_apply_latency_avg",
        "commit": "kafka_server_raftmetrics_commit_latency_avg",
    }
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in ("", "#"))
    return {key: float(lines[name]) for key, name in names.items()}


def commit_changes(port: int, folder: str, clients: int, count: int, seconds: float) -> ProbeResult:
    return probe(
        port,
        frame_client.change_frames(TOPIC),
        frame_client.change_error_position(TOPIC),
        folder,
        connections=clients,
        count=count,
        seconds=seconds,
    )


def failover_ms(victim: Peer, ports: list[int]) -> float:
    """Kill a node; the time until a change is acknowledged by one of the others."""
    change(ports, 1_000_000)
    begin = time.perf_counter()
    victim.stop(signal.SIGKILL)
    change(ports, 2_000_000)
    return (time.perf_counter() - begin) * 1000


def change(ports: list[int], value_ms: int) -> None:
    """Ask the nodes in turn until a change is acknowledged."""
    end, number = Deadline(WITHIN_S), 0
    while not end.is_over:
        number += 1
        try:
            with closing(frame_client.connect(ports[number % len(ports)])) as connection:
                if frame_client.try_to_change(connection, TOPIC, value_ms + number) == 0:
                    return
        except UnreachableError:
            pass
        time.sleep(frame_client.RETRY_INTERVAL_S)
    raise TimeoutError(f"no change within {WITHIN_S} s")


class Store:
    """Three nodes of etcd or ZooKeeper; a change is that of a value of 100 bytes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.ports = free_ports(len(IDS))
        self.nodes = self._nodes()

    def _nodes(self) -> list[Peer]:
        raise NotImplementedError

    def _load(self) -> list[str]:
        """The command of its load, without the arguments."""
        raise NotImplementedError

    def leads(self, port: int) -> bool:
        """Whether the node serves as the leader; OSError if it does not serve yet."""
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for node in self.nodes:
                node.start()
            self.leader()
            yield
        finally:
            for node in self.nodes:
                node.stop(signal.SIGKILL)

    @property
    def addresses(self) -> str:
        return ",".join([f"{LOOPBACK}:{port}" for port in self.ports])

    def leader(self) -> Peer:
        """The leader, once all nodes serve."""
        end = Deadline(WITHIN_S)
        while not end.is_over:
            try:
                leads = [self.leads(port) for port in self.ports]
            except OSError:
                leads = []
            if any(leads):
                return self.nodes[leads.index(True)]
            time.sleep(0.05)
        raise TimeoutError(f"{self.folder}: no leader within {WITHIN_S} s")

    def commit(self, clients: int, count: int, seconds: float) -> ProbeResult:
        address = self.leader().address
        return parse_probe(output([*self._load(), address, str(clients), str(count), str(seconds)]))

    def failover_ms(self) -> float:
        """The longest wait of one client that goes on while the leader is killed."""
        leader, seconds = self.leader(), int(BEFORE_KILL_S + AFTER_KILL_S)
        words = [self.addresses, "1", str(UNLIMITED), str(seconds)]
        with subprocess.Popen(
            [*self._load(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stderr
            while (line := client.stderr.readline()) and line != "ready\n":
                pass
            time.sleep(BEFORE_KILL_S)
            leader.stop(signal.SIGKILL)
            text, complaint = client.communicate(timeout=WITHIN_S)
        if client.returncode:
            raise RuntimeError(f"{leader.name}: its client failed: {complaint[-300:]}")
        return max(parse_probe(text).times_ms)


class Etcd(Store):
    def _nodes(self) -> list[Peer]:
        peer_ports = free_ports(len(IDS))
        urls = [f"http://{LOOPBACK}:{port}" for port in peer_ports]
        members = ",".join([f"n{i}={url}" for i, url in enumerate(urls)])
        nodes = []
        for i, (port, url) in enumerate(zip(self.ports, urls, strict=True)):
            client = f"http://{LOOPBACK}:{port}"
            flags = {
                "name": f"n{i}",
                "data-dir": f"{self.folder}/n{i}",
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": url,
                "initial-advertise-peer-urls": url,
                "initial-cluster": members,
                "log-level": "warn",
            }
            words = [word for key, value in flags.items() for word in (f"--{key}", value)]
            command = [programs.etcd(), "serve", *words]
            nodes.append(Peer(ETCD, command, port, f"{self.folder}/n{i}.log"))
        return nodes

    def _load(self) -> list[str]:
        return [programs.etcd(), "load"]

    def leads(self, port: int) -> bool:
        url = f"http://{LOOPBACK}:{port}/v3/maintenance/status"
        with urllib.request.urlopen(url, b"{}", timeout=WITHIN_S) as response:
            status = json.load(response)
        return bool(status.get("leader") == status["header"]["member_id"])


class ZooKeeper(Store):
    def _nodes(self) -> list[Peer]:
        ports = free_ports(2 * len(IDS))
        quorum, election = ports[: len(IDS)], ports[len(IDS) :]
        servers = [
            f"server.{node_id}={LOOPBACK}:{quorum[i]}:{election[i]}\n"
            for i, node_id in enumerate(IDS)
        ]
        nodes = []
        for node_id, port in zip(IDS, self.ports, strict=True):
            folder = f"{self.folder}/zk-{node_id}"
            os.mkdir(folder)
            write(f"{folder}/myid", f"{node_id}\n")
            config = ZOOKEEPER_CONFIG.format(folder=folder, port=port) + "".join(servers)
            write(f"{folder}/zoo.cfg", config)
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            libs = os.path.join(programs.zookeeper_libs(), "*")
            command = ["java", *SMALL_HEAP, f"-Dzookeeper.log.dir={folder}", "-cp", libs, main]
            log = f"{folder}/log"
            nodes.append(Peer(ZOOKEEPER, [*command, f"{folder}/zoo.cfg"], port, log))
        return nodes

    def _load(self) -> list[str]:
        return ["java", "-Xmx512m", "-cp", programs.zookeeper_load(), "ZooKeeperLoad"]

    def leads(self, port: int) -> bool:
        with socket.create_connection((LOOPBACK, port), WITHIN_S) as sock:
            sock.sendall(b"srvr")
            text = b"".join(iter(lambda: sock.recv(4096), b""))
        if b"Mode: " not in text:
            raise ConnectionError("it does not serve yet")
        return b"Mode: leader" in text


class KafkaWithZooKeeper:
    """Three brokers of the last Kafka with ZooKeeper, and three ZooKeepers.

    The leader that is killed is ZooKeeper's: the brokers keep the cluster's state there.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.zookeeper = ZooKeeper(folder)
        libs = programs.kafka_with_zookeeper_libs()
        self.brokers = []
        for node_id, port in zip(IDS, free_ports(len(IDS)), strict=True):
            home = f"{folder}/broker-{node_id}"
            os.mkdir(home)
            file = f"{home}/server.properties"
            text = BROKER_CONFIG.format(
                node_id=node_id,
                port=port,
                folder=f"{home}/data",
                zookeeper=self.zookeeper.addresses,
            )
            write(file, text)
            command = java(home, "kafka.Kafka", file, heap=SMALL_HEAP, libs=libs)
            self.brokers.append(Peer(KAFKA_WITH_ZOOKEEPER, command, port, f"{home}/log"))

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.zookeeper.running():
            try:
                for broker in self.brokers:
                    broker.start()
                frame_client.create_topic(self._controllers_port(), TOPIC)
                yield
            finally:
                for broker in self.brokers:
                    broker.stop(signal.SIGKILL)

    def _controllers_port(self) -> int:
        """The broker that is the controller, once all are there: only it creates topics."""
        port = self.brokers[0].port
        wait_until(port, lambda it: len(metadata(it).brokers) == len(self.brokers))
        wait_until(port, lambda it: metadata(it).controller_id in IDS)
        with closing(frame_client.connect(port)) as connection:
            return self.brokers[IDS.index(metadata(connection).controller_id)].port

    def commit(self, clients: int, count: int, seconds: float) -> ProbeResult:
        return commit_changes(self.brokers[0].port, self.folder, clients, count, seconds)

    def failover_ms(self) -> float:
        ports = [broker.port for broker in self.brokers]
        return failover_ms(self.zookeeper.leader(), ports)


def ensemble(peer: str, folder: str) -> Brokers | Store | KafkaWithZooKeeper:
    if peer == ETCD:
        return Etcd(folder)
    if peer == ZOOKEEPER:
        return ZooKeeper(folder)
    if peer == KAFKA_WITH_ZOOKEEPER:
        return KafkaWithZooKeeper(folder)
    return Brokers(peer, folder)
