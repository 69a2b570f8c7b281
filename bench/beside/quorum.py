"""Three controllers and a broker, each a process: commits, and the failure of the leader."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from tests.ports import free_ports

from bench.beside import frame_client
from bench.beside.peers import (
    CLUSTER_ID,
    SMALL_HEAP,
    Peer,
    format_kafka,
    java,
    kraftlog,
    running,
    write,
)
from bench.beside.programs import ProbeResult, probe
from bench.beside.rows import KAFKA, PEERS
from kraftlog.client.deadline import Deadline
from kraftlog.errors import UnreachableError

if TYPE_CHECKING:
    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from kraftlog.wire.messages.describe_quorum import PartitionResult

CONTROLLERS = (1, 2, 3)
BROKER = 4
TOPIC = "quorum"
#: Concurrent clients, one change in flight each.
CLIENTS = 256
ROUNDS = 3
#: More changes than fit into the time, so that the time is the limit.
UNLIMITED = 1_000_000
FAILOVER_WITHIN_S = 60
REST_S = 3
PROPERTIES = """\
process.roles={role}
node.id={node_id}
listeners={listener}://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
offsets.topic.replication.factor=1
"""


class Cluster:
    """A formatted cluster and its nodes by id; clients use the broker."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = os.path.join(folder, f"quorum-{name}")
        os.mkdir(self.folder)
        ids = (*CONTROLLERS, BROKER)
        ports = dict(zip(ids, free_ports(len(ids)), strict=True))
        voters = ",".join([f"{each}@127.0.0.1:{ports[each]}" for each in CONTROLLERS])
        with ThreadPoolExecutor(2) as pool:
            peers = pool.map(lambda each: self._node(each, ports[each], voters), ids)
        self.nodes = dict(zip(ids, peers, strict=True))

    def _node(self, node_id: int, port: int, voters: str) -> Peer:
        folder = os.path.join(self.folder, str(node_id))
        os.mkdir(folder)
        file = f"{folder}/server.properties"
        role, listener = ("broker", "PLAINTEXT") if node_id == BROKER else ("controller",) * 2
        text = PROPERTIES.format(
            role=role,
            listener=listener.upper(),
            node_id=node_id,
            port=port,
            voters=voters,
            data=f"{folder}/data",
        )
        write(file, text)
        if self.name == KAFKA:
            format_kafka(file)
            command = java(folder, "kafka.Kafka", file, heap=SMALL_HEAP)
        else:
            command = [*kraftlog(), "format", "-t", CLUSTER_ID, "-c", file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            command = [*kraftlog(), "start", file]
        return Peer(self.name, command, port, f"{folder}/log")

    @property
    def port(self) -> int:
        return self.nodes[BROKER].port

    def describe(self) -> PartitionResult:
        return frame_client.describe_quorum(self.port)

    def leader(self) -> Peer:
        return self.nodes[self.describe().leader_id]


def quorum(plan: Plan, folder: str, result: Result) -> None:
    """Measure one cluster after the other, as Kafka's four idle JVMs would disturb kraftlog."""
    rounds = min(plan.rounds, ROUNDS)
    for name in PEERS:
        cluster = Cluster(name, folder)
        with ExitStack() as stack:
            for node_id in CONTROLLERS:
                stack.callback(cluster.nodes[node_id].stop)
                cluster.nodes[node_id].start()
            stack.enter_context(running(cluster.nodes[BROKER]))
            frame_client.create_topic(cluster.port, TOPIC)
            warm(cluster, plan, folder)
            for _ in range(rounds):
                measure_commits(cluster, plan, folder, result)
            for number in range(rounds):
                took = kill_leader(cluster, number)
                result.add("quorum.kill", name, took * 1000)
    result.notes.append("The clusters run one after the other, each warmed first.")


def warm(cluster: Cluster, plan: Plan, folder: str) -> None:
    end = time.perf_counter() + plan.warm_s
    while time.perf_counter() < end:
        for port in (cluster.port, cluster.leader().port):
            probe_changes(port, folder, connections=16, seconds=1)


def measure_commits(cluster: Cluster, plan: Plan, folder: str, result: Result) -> None:
    """Measure sequential and concurrent changes, sent to a broker and to the active controller."""
    ports = (("broker", cluster.port), ("leader", cluster.leader().port))
    for target, port in ports:
        probe_changes(port, folder, connections=1, count=20)
        sequential = probe_changes(port, folder, connections=1, count=plan.count(200))
        concurrent = probe_changes(port, folder, connections=CLIENTS, seconds=plan.commit_s)
        result.add(f"quorum.{target}.p50", cluster.name, sequential.p50)
        result.add(f"quorum.{target}.p99", cluster.name, sequential.p99)
        result.add(f"quorum.{target}.rate", cluster.name, concurrent.rate)


def probe_changes(
    port: int, folder: str, *, connections: int, count: int = UNLIMITED, seconds: float = 60
) -> ProbeResult:
    frames, error_position = (
        frame_client.change_frames(TOPIC),
        frame_client.change_error_position(TOPIC),
    )
    return probe(
        port, frames, error_position, folder, connections=connections, count=count, seconds=seconds
    )


def kill_leader(cluster: Cluster, number: int) -> float:
    """Kill the leader; return the seconds to the next acknowledged change. Then restart it."""
    victim = cluster.leader()
    change_with_retries(cluster, 200_000_000 + number)
    begin = time.perf_counter()
    victim.stop(signal.SIGKILL)
    change_with_retries(cluster, 300_000_000 + number)
    took = time.perf_counter() - begin
    victim.start()
    wait_until_caught_up(cluster, victim)
    # The controller must still replay its log: until then another kill would be a second failure.
    time.sleep(REST_S)
    return took


def change_with_retries(cluster: Cluster, value_ms: int) -> None:
    """Repeat a change, as a client retries, until it is acknowledged."""
    end = Deadline(FAILOVER_WITHIN_S)
    while not end.is_over:
        try:
            with closing(frame_client.connect(cluster.port)) as connection:
                while not end.is_over:
                    if frame_client.try_to_change(connection, TOPIC, value_ms) == 0:
                        return
                    time.sleep(frame_client.RETRY_INTERVAL_S)
        except UnreachableError:
            time.sleep(frame_client.RETRY_INTERVAL_S)
    raise TimeoutError(f"{cluster.name}: no change within {FAILOVER_WITHIN_S} s of the kill")


def wait_until_caught_up(cluster: Cluster, peer: Peer) -> None:
    """Wait until a restarted controller has all records that were committed before."""
    [node_id] = [each for each, node in cluster.nodes.items() if node is peer]
    goal = cluster.describe().high_watermark
    end = Deadline(FAILOVER_WITHIN_S)
    while not end.is_over:
        ends = {each.replica_id: each.log_end_offset for each in cluster.describe().current_voters}
        if ends.get(node_id, -1) >= goal:
            return
        time.sleep(0.05)
    raise TimeoutError(f"{cluster.name}: controller {node_id} does not catch up")
