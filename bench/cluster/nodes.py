"""Combined nodes of Kafka or kraftlog, each a process, and what a client sees of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tests.ports import free_ports

from bench.beside import frame_client
from bench.beside.frame_client import LOOPBACK
from bench.beside.machine import cpu_seconds
from bench.beside.peers import CLUSTER_ID, HEAP, Peer, format_kafka, java, kraftlog, write
from bench.beside.rows import KAFKA
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode, UnreachableError
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraftlog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kraftlog.client.connection import Connection
    from kraftlog.wire.messages.metadata import MetadataResponsePartition

IDS = (1, 2, 3)
#: Kafka needs minutes to reassign 10,000 partitions.
TIMEOUT_S = 600
PROPERTIES = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{quorum}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
broker.rack={rack}
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
"""


class Cluster:
    """A formatted cluster, its nodes by id, and the ports of their controllers."""

    def __init__(self, name: str, folder: str, ids: Sequence[int] = IDS) -> None:
        self.name = name
        self.folder = folder
        #: The topics of the many partitions, once they are created.
        self.topics: list[str] = []
        ports = free_ports(2 * len(ids))
        listeners = dict(zip(ids, ports[: len(ids)], strict=True))
        self.controller_ports = dict(zip(ids, ports[len(ids) :], strict=True))
        with ThreadPoolExecutor(2) as pool:
            nodes = pool.map(lambda each: self._node(each, listeners[each]), ids)
            self.nodes = dict(zip(ids, nodes, strict=True))

    def _node(self, node_id: int, port: int) -> Peer:
        folder = os.path.join(self.folder, str(node_id))
        os.mkdir(folder)
        file = f"{folder}/server.properties"
        ports = self.controller_ports
        text = PROPERTIES.format(
            node_id=node_id,
            host=self.host_of(node_id),
            port=port,
            quorum=ports[node_id],
            voters=",".join([f"{each}@{self.host_of(each)}:{ports[each]}" for each in ports]),
            data=self.data_of(node_id),
            rack=rack_of(node_id),
            replicas=len(ports),
            in_sync=(len(ports) + 1) // 2,
        )
        write(file, text)
        if self.name == KAFKA:
            format_kafka(file)
            command = java(folder, "kafka.Kafka", file, heap=HEAP)
        else:
            command = [*kraftlog(), "format", "-t", CLUSTER_ID, "-c", file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            command = [*kraftlog(), "start", file]
        command = self.command_of(node_id, command)
        return Peer(self.name, command, port, f"{folder}/log", self.host_of(node_id))

    def host_of(self, node_id: int) -> str:  # noqa: ARG002 - others have an address for each node
        return LOOPBACK

    def command_of(self, node_id: int, command: list[str]) -> list[str]:  # noqa: ARG002 - as above
        return command

    def data_of(self, node_id: int) -> str:
        return os.path.join(self.folder, str(node_id), "data")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all nodes; kill them at the end, as their data is of no use then."""
        try:
            for node in self.nodes.values():
                node.start()
            for node in self.nodes.values():
                wait_until(
                    node.port,
                    lambda it: len(metadata(it).brokers) == len(self.nodes),
                    host=node.host,
                )
            yield
        finally:
            for node in self.nodes.values():
                node.stop(signal.SIGKILL)

    @property
    def address(self) -> str:
        return ",".join([node.address for node in self.nodes.values()])

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(node.pid) for node in self.nodes.values())

    def controller(self) -> int:
        """The id of the active controller."""
        return frame_client.describe_quorum(self.first.port).leader_id

    @property
    def first(self) -> Peer:
        return next(iter(self.nodes.values()))

    def status_lines(self) -> Iterator[str]:
        """Whether each node runs, and the last lines that it has logged."""
        for node_id, node in self.nodes.items():
            ended = node.process.poll() if node.process else "stopped"
            yield f"{self.name} {node_id}: {'runs' if ended is None else f'exit code {ended}'}"
            with open(node.log, encoding="utf-8", errors="replace") as log:
                yield from [f"    {line.rstrip()[:300]}" for line in log.readlines()[-6:]]

    def leader_of(self, topic: str) -> Peer:
        with closing(frame_client.connect(self.first.port)) as connection:
            [partition] = metadata(connection, topic).topics[0].partitions
        return self.nodes[partition.leader_id]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic, and wait until every partition is fully replicated."""
        wait_until(self.first.port, lambda it: try_to_create(it, name, partitions) == 0)
        for node in self.nodes.values():
            wait_until_each(node.port, [name], has_full_isr)


def rack_of(node_id: int) -> str:
    return f"rack-{node_id}"


def try_to_create(
    connection: Connection, name: str, partitions: int = 1, replicas: int = len(IDS)
) -> int:
    """Send a CreateTopics request for one topic; return its error code."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=(),
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    response = connection.call(request, frame_client.deadline())
    assert isinstance(response, CreateTopicsResponse)
    return response.topics[0].error_code


def elect_preferred_leaders(
    port: int, topics: Sequence[str], partitions: int, host: str = LOOPBACK
) -> None:
    """Make the first replica of every partition of the topics its leader.

    The request names the partitions: Kafka and kraftlog refuse more than 10,000 elections in one
    request, and the cluster may have other topics.
    """
    named = [TopicPartitions(topic=name, partitions=range(partitions)) for name in topics]
    request = ElectLeadersRequest(election_type=0, topic_partitions=named, timeout_ms=30_000)

    def elect(connection: Connection) -> set[int]:
        response = connection.call(request, frame_client.deadline())
        assert isinstance(response, ElectLeadersResponse)
        results = [it for each in response.replica_election_results for it in each.partition_result]
        return {response.error_code, *[it.error_code for it in results]}

    with closing(frame_client.connect(port, host)) as connection:
        refused = codes_in_the_end(connection, elect) - {ErrorCode.ELECTION_NOT_NEEDED}
    assert not refused, f"preferred leaders can't be elected: errors {refused}"


def codes_in_the_end(connection: Connection, attempt: Callable[[Connection], set[int]]) -> set[int]:
    """The errors of a change, repeated while a node answers with an error of its own.

    Kafka answers UNKNOWN_SERVER_ERROR, for example, when its controller has no time.
    """
    end = Deadline(TIMEOUT_S)
    while ErrorCode.UNKNOWN_SERVER_ERROR in (codes := attempt(connection)) and not end.is_over:
        time.sleep(1)
    return codes - {ErrorCode.NONE}


def metadata(connection: Connection, *topics: str) -> MetadataResponse:
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = connection.call(request, frame_client.deadline())
    assert isinstance(response, MetadataResponse)
    return response


def has_full_isr(partition: MetadataResponsePartition) -> bool:
    return partition.leader_id > 0 and len(partition.isr_nodes) == len(IDS)


def wait_until(
    port: int,
    is_met: Callable[[Connection], bool],
    interval_s: float = frame_client.RETRY_INTERVAL_S,
    host: str = LOOPBACK,
) -> None:
    """Call `is_met` with a connection to the node until it is true; reconnect after a failure."""
    end = Deadline(TIMEOUT_S)
    while not end.is_over:
        try:
            with closing(frame_client.connect(port, host)) as connection:
                while not end.is_over:
                    if is_met(connection):
                        return
                    time.sleep(interval_s)
        except UnreachableError:
            time.sleep(frame_client.RETRY_INTERVAL_S)
    raise TimeoutError(f"{host}:{port}: the condition is not met after {TIMEOUT_S} s")


def wait_until_each(
    port: int,
    topics: Sequence[str],
    is_met: Callable[[MetadataResponsePartition], bool],
    interval_s: float = 0.01,
    host: str = LOOPBACK,
) -> None:
    """Wait until all partitions of the topics satisfy a condition in the Metadata of a node.

    Only the first topic is requested until its partitions satisfy it, and then all others at once:
    so the requests cost the node little.
    """
    waiting = list(topics)
    width = 1

    def all_meet(connection: Connection) -> bool:
        nonlocal waiting, width
        response = metadata(connection, *waiting[:width])
        done = {
            topic.name
            for topic in response.topics
            if topic.error_code == 0 and topic.partitions and all(map(is_met, topic.partitions))
        }
        waiting = [name for name in waiting if name not in done]
        width = len(waiting) if done else 1
        return not waiting

    try:
        wait_until(port, all_meet, interval_s, host)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {len(waiting)} topics, the first is {waiting[0]}") from None
