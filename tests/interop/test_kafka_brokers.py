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
from tests.patience import LIMIT_S
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import format_node

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.client.model import Partition
    from tests.interop.driver import Driver

CONTROLLER = 1
BROKERS = (2, 3)
TOPIC = "orders"
RECORDS = 200
COMMON = """\
node.id={node_id}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{quorum}
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
offsets.topic.replication.factor=2
"""


class KafkaBrokers:
    """One controller of kraftlog and two brokers of Kafka."""

    def __init__(self, folder: Path, jvm: Driver, closing: ExitStack) -> None:
        self._folder, self._jvm = folder, jvm
        self.ports = dict(zip((CONTROLLER, *BROKERS), free_ports(1 + len(BROKERS)), strict=True))
        self._format(CONTROLLER, CONTROLLER_FILE, "--standalone")
        controller = NodeProcess(
            None, self.file(CONTROLLER), topics={}, errors=str(folder / "errors.txt")
        )
        closing.callback(controller.make_sure_it_is_gone)
        self.kafka = KafkaNodes(folder, closing)
        for broker in BROKERS:
            self._format(broker, BROKER_FILE)
        self.kafka.start(*BROKERS)
        self.client = Client(self.servers, timeout_s=LIMIT_S)
        closing.callback(self.client.close)

    def _format(self, node_id: int, text: str, *how: str) -> None:
        text = (COMMON + text).format(
            node_id=node_id,
            port=self.ports[node_id],
            quorum=self.ports[CONTROLLER],
            folder=self._folder,
        )
        (self._folder / f"{node_id}.properties").write_text(text)
        format_node(self.file(node_id), *how)

    def file(self, node_id: int) -> str:
        return str(self._folder / f"{node_id}.properties")

    @property
    def servers(self) -> str:
        return ",".join([f"127.0.0.1:{self.ports[broker]}" for broker in BROKERS])

    def run(self, tool: str, *words: str) -> str:
        """Run one of Kafka's tools, which asks a broker of Kafka."""
        done = self._jvm.tool(CLASSES[tool], "--bootstrap-server", self.servers, *words)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout

    def partitions(self, topic: str = TOPIC) -> list[Partition]:
        return partitions_of(self.client, topic)

    def leaders(self) -> set[int]:
        return {it.leader for it in self.partitions()}

    def until_full(self) -> None:
        """Wait until Kafka's leaders have proposed full ISRs to our controller."""
        until(lambda: {len(it.isr) for it in self.partitions()}, {len(BROKERS)})


@pytest.mark.long
def test_v1_v2_v3_controller_governs_kafkas_brokers(tmp_path: Path, jvm: Driver) -> None:
    """Their requests come in an Envelope; our controller decides leaders, ISRs and shutdowns."""
    with ExitStack() as closing:
        cluster = KafkaBrokers(tmp_path, jvm, closing)
        administered(cluster, tmp_path)
        produced(cluster, 0)
        assert consumed(cluster) == list(range(RECORDS))
        killed = cluster.partitions()[0].leader
        other = next(it for it in BROKERS if it != killed)
        cluster.kafka.kill(killed)
        until(cluster.leaders, {other})
        produced(cluster, RECORDS)
        cluster.kafka.start(killed)
        cluster.until_full()
        cluster.run(
            "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
        )
        until(cluster.leaders, set(BROKERS))
        cluster.kafka.stop(other)
        until(cluster.leaders, {killed})
        assert consumed(cluster) == list(range(RECORDS, 2 * RECORDS))


@pytest.mark.long
def test_v2_unclean_elections_on_kafkas_brokers(tmp_path: Path, jvm: Driver) -> None:
    """By Kafka's tool, and by unclean.leader.election.enable; else a partition has no leader."""
    stale, newest = BROKERS
    with ExitStack() as closing:
        cluster = KafkaBrokers(tmp_path, jvm, closing)
        placed = ",".join([f"{stale}:{newest}"] * 2)
        cluster.run("kafka-topics", "--create", "--topic", TOPIC, "--replica-assignment", placed)
        cluster.until_full()
        produced(cluster, 0)
        cluster.kafka.kill(stale)
        until(cluster.leaders, {newest})
        produced(cluster, RECORDS)
        cluster.kafka.kill(newest)
        cluster.kafka.start(stale)
        until(cluster.leaders, {-1})
        one = ("--topic", TOPIC, "--partition", "0")
        cluster.run("kafka-leader-election", "--election-type", "unclean", *one)
        until(lambda: [it.leader for it in cluster.partitions()], [stale, -1])
        entity = ("--entity-type", "topics", "--entity-name", TOPIC)
        allowed = ("--add-config", "unclean.leader.election.enable=true")
        cluster.run("kafka-configs", "--alter", *entity, *allowed)
        cluster.kafka.kill(stale)
        cluster.kafka.start(stale)
        until(cluster.leaders, {stale})
        produced(cluster, 2 * RECORDS)
        left = [*range(RECORDS), *range(2 * RECORDS, 3 * RECORDS)]
        assert consumed(cluster, len(left)) == left
        # The broker that has the lost records truncates its log to that of the leader.
        cluster.kafka.start(newest)
        cluster.until_full()
        cluster.kafka.kill(stale)
        until(cluster.leaders, {newest})
        assert consumed(cluster, len(left), "others") == left


def administered(cluster: KafkaBrokers, folder: Path) -> None:
    """Change the cluster with Kafka's tools through Kafka's brokers."""
    placed = ":".join(map(str, BROKERS)) + "," + ":".join(map(str, reversed(BROKERS)))
    topic = ("--topic", TOPIC)
    created = cluster.run("kafka-topics", "--create", *topic, "--replica-assignment", placed)
    assert f"Created topic {TOPIC}." in created
    cluster.until_full()
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    cluster.run("kafka-configs", "--alter", *entity, "--add-config", "min.insync.replicas=1")
    shown = cluster.run("kafka-configs", "--describe", *entity)
    assert "min.insync.replicas=1" in shown
    cluster.run("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "2")
    target = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3]}]}
    plan = folder / "plan.json"
    plan.write_text(json.dumps(target))
    cluster.run("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    until(lambda: cluster.partitions("moved")[0].replicas, (3,))
    cluster.run("kafka-topics", "--alter", "--topic", "moved", "--partitions", "2")
    cluster.run("kafka-topics", "--delete", "--topic", "moved")
    status = cluster.run("kafka-metadata-quorum", "describe", "--status")
    assert "LeaderId:" in status
    levels = cluster.run("kafka-features", "describe")
    assert "metadata.version" in levels


def produced(cluster: KafkaBrokers, first: int) -> None:
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


def consumed(cluster: KafkaBrokers, count: int = RECORDS, group: str = "readers") -> list[int]:
    """The next records that the group reads, in the order of their numbers; they are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    try:
        until(lambda: read_more(consumer, found) >= count, expected=True)
    finally:
        consumer.close()
    return sorted(found)


def read_more(consumer: Consumer, found: list[int]) -> int:
    for message in consumer.consume(RECORDS, timeout=0.2):
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        found.append(int(value))
    return len(found)
