"""The latency of metadata changes: on one node, and on three controllers with a broker.

Each node is a process. The functions take an address, so that they can measure any Kafka-compatible
cluster. The client sends prepared frames over a plain socket.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

from kraftlog.node.quorum.snapshotter import BYTES_KEY
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages import incremental_alter_configs as configs
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionResult,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.wire.schema import Message

    Case = tuple[str, float, str]

TOPIC = "changed"
TOPIC_RESOURCE = 2
TIMEOUT_S = 120
#: The correlation id, and a byte that says that there are no tagged fields.
RESPONSE_HEADER_BYTES = 5
#: Sequential changes for latencies; pipelined ones over several connections for rates.
ONE_BY_ONE = 500
PIPELINED = 8000
CONNECTIONS, IN_FLIGHT = 4, 64
ROUNDS = 3
KILLS = 7
#: Changes before a node is killed; too few for a snapshot by Kafka's defaults.
BEFORE_KILL = 100_000
KAFKA_SNAPSHOT_SETTING = ("--override", f"{BYTES_KEY}={20 << 20}")


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        node = NodeProcess(f"{folder}/data", errors=f"{folder}/errors.txt", topics={TOPIC: 1})
        try:
            yield from address_cases("one node", node.address)
        finally:
            node.kill_if_running()
    changed = f"one node killed after {BEFORE_KILL:,} changes"
    yield f"{changed}: restart until ready", ready_again_ms(), "ms"
    rare_snapshots_ms = ready_again_ms(*KAFKA_SNAPSHOT_SETTING)
    yield f"{changed}, snapshots as rare as Kafka's: restart until ready", rare_snapshots_ms, "ms"
    with tempfile.TemporaryDirectory() as folder:
        quorum = Quorum(Path(folder))
        try:
            quorum.start(*CONTROLLERS, BROKER)
            create_topic(quorum.address)
            yield from address_cases("three controllers", quorum.address)
            killed = [failover_ms(quorum) for _ in range(KILLS)]
            yield (
                "`kill -9` of the active controller to the next acknowledged change, p50",
                median(killed),
                "ms",
            )
            yield (
                "`kill -9` of the active controller to the next acknowledged change, max",
                max(killed),
                "ms",
            )
        finally:
            quorum.end()


def address_cases(nodes: str, address: str) -> Iterator[Case]:
    commit_times_ms(address, 100)
    times = commit_times_ms(address, ONE_BY_ONE)
    yield f"{nodes}: change a topic config, p50", median(times), "ms"
    yield f"{nodes}: change a topic config, p99", quantiles(times, n=100)[98], "ms"
    times = creation_times_ms(address, ONE_BY_ONE)
    yield f"{nodes}: create a topic, p50", median(times), "ms"
    yield f"{nodes}: create a topic, p99", quantiles(times, n=100)[98], "ms"
    rate = max([commits_per_second(address, PIPELINED) for _ in range(ROUNDS)])
    what = f"{CONNECTIONS} connections with {IN_FLIGHT} requests in flight"
    yield f"{nodes}: change topic configs, {what}", rate, "changes/s"


def ready_again_ms(*settings: str) -> float:
    """The time from the start of a killed node to its readiness; the best of several rounds."""
    with tempfile.TemporaryDirectory() as folder:
        data, errors = f"{folder}/data", f"{folder}/errors.txt"
        node = NodeProcess(data, *settings, errors=errors, topics={TOPIC: 1})
        took = []
        try:
            commits_per_second(node.address, BEFORE_KILL)
            for _ in range(ROUNDS):
                node.kill()
                begin = time.perf_counter()
                node = NodeProcess(data, *settings, errors=errors, topics={})
                took.append((time.perf_counter() - begin) * 1000)
        finally:
            node.kill_if_running()
    return min(took)


# Measuring an address ----------------------------------------------------------------------------


def commit_times_ms(address: str, count: int) -> list[float]:
    """The latency of each of `count` sequential changes of a topic config."""
    return times_ms(address, [change(number) for number in range(count)])


def creation_times_ms(address: str, count: int) -> list[float]:
    """The latency of each of `count` sequential creations of a topic with one partition."""
    unique = f"{time.time_ns():x}"
    return times_ms(address, [creation(f"made-{unique}-{number}") for number in range(count)])


def times_ms(address: str, frames: Sequence[bytes]) -> list[float]:
    times = []
    with ChangeClient(address) as changes:
        for frame in frames:
            begin = time.perf_counter()
            changes.send(frame)
            changes.await_responses(1)
            times.append((time.perf_counter() - begin) * 1000)
    return times


def commits_per_second(
    address: str, count: int, connections: int = CONNECTIONS, in_flight: int = IN_FLIGHT
) -> float:
    """The rate of changes over several connections with requests in flight."""
    frames = [change(number) for number in range(count // connections)]
    clients = [ChangeClient(address) for _ in range(connections)]
    begin = time.perf_counter()
    for client in clients:
        client.send(b"".join(frames[:in_flight]))
    step = max(in_flight // 2, 1)
    for first in range(in_flight, len(frames), step):
        for client in clients:
            more = frames[first : first + step]
            client.await_responses(len(more))
            client.send(b"".join(more))
    for client in clients:
        client.await_responses(min(in_flight, len(frames)))
        client.close()
    return len(frames) * connections / (time.perf_counter() - begin)


def failover_ms(quorum: Quorum) -> float:
    """The time from a kill -9 of the active controller to the next acknowledged change."""
    leader = settled_leader_of(quorum.address)
    with ChangeClient(quorum.address) as changes:
        quorum.nodes[leader].process.kill()
        begin = time.perf_counter()
        changes.send(change(0))
        changes.await_responses(1)
        took = (time.perf_counter() - begin) * 1000
    quorum.kill(leader)
    quorum.start(leader)
    return took


def settled_leader_of(address: str) -> int:
    """The leader, once all controllers have caught up, as one that lags could not be elected."""
    deadline = time.perf_counter() + TIMEOUT_S
    while time.perf_counter() < deadline:
        times_ms(address, [change(1), change(2)])
        part = quorum_of(address)
        ends = {voter.log_end_offset for voter in part.current_voters}
        if len(part.current_voters) == len(CONTROLLERS) and len(ends) == 1:
            return part.leader_id
        time.sleep(0.05)
    raise TimeoutError(f"not all controllers have caught up after {TIMEOUT_S} s")


def quorum_of(address: str) -> PartitionResult:
    topic = TopicData(
        topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
    )
    with ChangeClient(address) as client:
        client.send(frame_of(ApiKey.DESCRIBE_QUORUM, 0, DescribeQuorumRequest(topics=[topic])))
        response = decode(DescribeQuorumResponse, 0, client.response()[RESPONSE_HEADER_BYTES:])
    partition: PartitionResult = response.topics[0].partitions[0]
    return partition


def create_topic(address: str) -> None:
    times_ms(address, [creation(TOPIC)])


# Frames ------------------------------------------------------------------------------------------


def frame_of(api_key: int, version: int, request: Message) -> bytes:
    return b"".join(request_frame(APIS[api_key], version, 1, "bench", request))


def change(number: int) -> bytes:
    """An IncrementalAlterConfigs request (version 1) that changes a topic config."""
    config = configs.AlterableConfig(
        name="retention.ms", config_operation=0, value=str(604_800_000 + number % 1000)
    )
    resource = configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[config]
    )
    request = configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return frame_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)


def creation(name: str) -> bytes:
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_S * 1000)
    return frame_of(ApiKey.CREATE_TOPICS, 7, request)


class ChangeClient:
    """A connection that sends changes and reads the responses."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def __enter__(self) -> ChangeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def await_responses(self, count: int) -> None:
        for _ in range(count):
            self.response()

    def response(self) -> bytes:
        """The next response, without its length."""
        while len(self.received) < 4 or len(self.received) < 4 + self._size():
            more = self.sock.recv(1 << 16)
            if not more:
                raise ConnectionError("the node has closed the connection")
            self.received += more
        size = self._size()
        response, self.received = self.received[4 : 4 + size], self.received[4 + size :]
        return response

    def _size(self) -> int:
        return int(struct.unpack_from(">i", self.received)[0])
