"""Brokers of Apache Kafka whose only controller is kraftlog's."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from kraftlog.client.client import Client
from tests.client.waiting import partitions_of, until
from tests.interop.kafka_broker import KafkaNodes
from tests.interop.tool_session import CLASSES
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.client.model import Partition
    from tests.interop.driver import Driver

CONTROLLER = 1
BROKERS = (2, 3, 4)
TOPIC = "orders"
RECORDS = 200
COMMON = """\
node.id={node_id}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={folder}/data-{node_id}
"""
CONTROLLER_FILE = """\
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
broker.session.timeout.ms=3000
"""
BROKER_FILE = """\
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port}
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
offsets.topic.num.partitions=1
offsets.topic.replication.factor={brokers}
"""


class KafkaBrokers:
    """One controller of kraftlog and brokers of Kafka."""

    def __init__(
        self, folder: Path, jvm: Driver, closing: ExitStack, brokers: tuple[int, ...] = BROKERS
    ) -> None:
        self._folder, self._jvm, self.brokers = folder, jvm, brokers
        self.ports = dict(zip((CONTROLLER, *brokers), free_ports(1 + len(brokers)), strict=True))
        self._format(CONTROLLER, CONTROLLER_FILE, "--standalone")
        controller = NodeProcess(
            None, self.file(CONTROLLER), topics={}, errors=str(folder / "errors.txt")
        )
        closing.callback(controller.kill_if_running)
        self.kafka = KafkaNodes(folder, closing)
        for broker in brokers:
            self._format(broker, BROKER_FILE)
        self.kafka.start(*brokers)
        self.client = Client(self.servers, timeout_s=LIMIT_S)
        closing.callback(self.client.close)

    def _format(self, node_id: int, template: str, *flags: str) -> None:
        properties = (COMMON + template).format(
            node_id=node_id,
            port=self.ports[node_id],
            controller_port=self.ports[CONTROLLER],
            folder=self._folder,
            brokers=len(self.brokers),
        )
        (self._folder / f"{node_id}.properties").write_text(properties)
        format_node(self.file(node_id), *flags)

    def file(self, node_id: int) -> str:
        return str(self._folder / f"{node_id}.properties")

    @property
    def servers(self) -> str:
        return ",".join([f"127.0.0.1:{self.ports[broker]}" for broker in self.brokers])

    def run(self, tool: str, *words: str) -> str:
        """Run one of Kafka's tools, which asks a broker of Kafka."""
        address = ("--bootstrap-server", self.servers)
        return self._jvm.tool_once_replayed(CLASSES[tool], *address, *words)

    def partitions(self, topic: str = TOPIC) -> list[Partition]:
        return partitions_of(self.client, topic)

    def leaders(self) -> set[int]:
        return {it.leader for it in self.partitions()}

    def wait_for_full_isrs(self) -> None:
        """Wait until Kafka's leaders have proposed full ISRs to our controller."""
        until(lambda: {len(it.isr) for it in self.partitions()}, {len(self.brokers)})


@pytest.mark.long
def test_v1_v2_v3_our_controller_serves_brokers_of_kafka(tmp_path: Path, jvm: Driver) -> None:
    """Brokers forward requests in an Envelope; our controller decides leaders, ISRs, shutdowns."""
    with ExitStack() as closing:
        cluster = KafkaBrokers(tmp_path, jvm, closing)
        administer_topics(cluster, tmp_path)
        produce_records(cluster, 0)
        assert consume_records(cluster) == list(range(RECORDS))
        administer_records(cluster, tmp_path)
        administer_features(cluster)
        killed, other = [it.replicas[0] for it in cluster.partitions()]
        cluster.kafka.kill(killed)
        until(lambda: killed in cluster.leaders(), expected=False)
        produce_records(cluster, RECORDS)
        cluster.kafka.start(killed)
        cluster.wait_for_full_isrs()
        cluster.run(
            "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
        )
        until(cluster.leaders, {killed, other})
        cluster.kafka.stop(other)
        until(lambda: other in cluster.leaders(), expected=False)
        assert consume_records(cluster) == list(range(RECORDS, 2 * RECORDS))


@pytest.mark.long
def test_v2_brokers_of_kafka_follow_unclean_elections(tmp_path: Path, jvm: Driver) -> None:
    """Only a tool or unclean.leader.election.enable gives a partition a stale leader."""
    stale, newest = BROKERS[:2]
    with ExitStack() as closing:
        cluster = KafkaBrokers(tmp_path, jvm, closing, (stale, newest))
        placed = ",".join([f"{stale}:{newest}"] * 2)
        cluster.run("kafka-topics", "--create", "--topic", TOPIC, "--replica-assignment", placed)
        cluster.wait_for_full_isrs()
        produce_records(cluster, 0)
        cluster.kafka.kill(stale)
        until(cluster.leaders, {newest})
        produce_records(cluster, RECORDS)
        cluster.kafka.kill(newest)
        cluster.kafka.start(stale)
        until(cluster.leaders, {-1})
        first_partition = ("--topic", TOPIC, "--partition", "0")
        cluster.run("kafka-leader-election", "--election-type", "unclean", *first_partition)
        until(lambda: [it.leader for it in cluster.partitions()], [stale, -1])
        entity = ("--entity-type", "topics", "--entity-name", TOPIC)
        unclean_config = ("--add-config", "unclean.leader.election.enable=true")
        cluster.run("kafka-configs", "--alter", *entity, *unclean_config)
        cluster.kafka.kill(stale)
        cluster.kafka.start(stale)
        until(cluster.leaders, {stale})
        produce_records(cluster, 2 * RECORDS)
        surviving = [*range(RECORDS), *range(2 * RECORDS, 3 * RECORDS)]
        assert consume_records(cluster, len(surviving)) == surviving
        # The broker that has the lost records truncates its log to that of the leader.
        cluster.kafka.start(newest)
        cluster.wait_for_full_isrs()
        cluster.kafka.kill(stale)
        until(cluster.leaders, {newest})
        assert consume_records(cluster, len(surviving), "others") == surviving


def administer_topics(cluster: KafkaBrokers, folder: Path) -> None:
    """Change the cluster with Kafka's tools through Kafka's brokers."""
    placed = ",".join([":".join(map(str, each)) for each in (BROKERS, reversed(BROKERS))])
    topic = ("--topic", TOPIC)
    created = cluster.run("kafka-topics", "--create", *topic, "--replica-assignment", placed)
    assert f"Created topic {TOPIC}." in created
    cluster.wait_for_full_isrs()
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    cluster.run("kafka-configs", "--alter", *entity, "--add-config", "min.insync.replicas=2")
    until(lambda: shows_min_isr_of_two(cluster, *entity), True)
    cluster.run("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "2")
    target = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3]}]}
    plan = folder / "plan.json"
    plan.write_text(json.dumps(target))
    cluster.run("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    until(lambda: [it.replicas for it in cluster.partitions("moved")], [(3,)])
    cluster.run("kafka-topics", "--alter", "--topic", "moved", "--partitions", "2")
    cluster.run("kafka-topics", "--delete", "--topic", "moved")
    status = cluster.run("kafka-metadata-quorum", "describe", "--status")
    assert "LeaderId:" in status


def shows_min_isr_of_two(cluster: KafkaBrokers, *entity: str) -> bool:
    """Whether Kafka's tool shows the config; the asked broker may not have applied it yet."""
    return "min.insync.replicas=2" in cluster.run("kafka-configs", "--describe", *entity)


def administer_records(cluster: KafkaBrokers, folder: Path) -> None:
    """Describe log directories and offsets, and delete records, with Kafka's tools."""
    brokers = ",".join(map(str, BROKERS))
    shown = cluster.run(
        *("kafka-log-dirs", "--describe"), *("--broker-list", brokers, "--topic-list", TOPIC)
    )
    directories = json.loads(shown.splitlines()[-1])["brokers"]
    replicas = {
        (each["broker"], partition["partition"])
        for each in directories
        for directory in each["logDirs"]
        for partition in directory["partitions"]
    }
    assert replicas == {(broker, f"{TOPIC}-{index}") for broker in BROKERS for index in (0, 1)}
    group = ("--group", "readers")
    half = RECORDS // 2
    assert cluster.run("kafka-consumer-groups", "--list").split() == ["readers"]
    shown = cluster.run("kafka-consumer-groups", "--describe", *group)
    assert [line.split()[1:6] for line in shown.splitlines() if TOPIC in line] == [
        [TOPIC, str(index), str(half), str(half), "0"] for index in (0, 1)
    ]
    offsets = {"topic": TOPIC, "partition": 0, "offset": half // 2}
    file = folder / "deletions.json"
    file.write_text(json.dumps({"version": 1, "partitions": [offsets]}))
    shown = cluster.run("kafka-delete-records", "--offset-json-file", str(file))
    assert f"partition: {TOPIC}-0\tlow_watermark: {half // 2}" in shown
    # Reset the group to the earliest offset left in each partition, and then to the latest.
    reset = ("--reset-offsets", *group, "--topic", TOPIC, "--execute")
    shown = cluster.run("kafka-consumer-groups", *reset, "--to-earliest")
    assert [line.split() for line in shown.splitlines() if TOPIC in line] == [
        ["readers", TOPIC, "0", str(half // 2)],
        ["readers", TOPIC, "1", "0"],
    ]
    cluster.run("kafka-consumer-groups", *reset, "--to-latest")


def administer_features(cluster: KafkaBrokers) -> None:
    """Lower a feature level with Kafka's tool and raise it again."""
    name = "group.version"

    def level() -> str:
        (line,) = [
            each
            for each in cluster.run("kafka-features", "describe").splitlines()
            if each.startswith(f"Feature: {name}")
        ]
        return line.partition("FinalizedVersionLevel: ")[2].split()[0]

    assert level() == "1"
    cluster.run("kafka-features", "downgrade", "--feature", f"{name}=0")
    until(level, "0")
    cluster.run("kafka-features", "upgrade", "--feature", f"{name}=1")
    until(level, "1")


def produce_records(cluster: KafkaBrokers, first: int) -> None:
    """Write records with acks=all; each is acknowledged."""
    errors = []
    producer = Producer({"bootstrap.servers": cluster.servers, "acks": "all"})
    for number in range(first, first + RECORDS):
        producer.produce(
            TOPIC,
            str(number),
            partition=number % 2,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * RECORDS


def consume_records(
    cluster: KafkaBrokers, count: int = RECORDS, group: str = "readers"
) -> list[int]:
    """Read and commit the group's next records; return their numbers, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    numbers: list[int] = []
    try:
        until(lambda: read_more(consumer, numbers) >= count, expected=True)
    finally:
        consumer.close()
    return sorted(numbers)


def read_more(consumer: Consumer, numbers: list[int]) -> int:
    """Append the numbers of the next records; return how many there are in all."""
    for message in consumer.consume(RECORDS, timeout=0.2):
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        numbers.append(int(value))
    return len(numbers)
