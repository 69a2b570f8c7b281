"""Our nodes follow Kafka's active controller: their image is Kafka's, at every offset."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kraftlog.client.client import Client
from kraftlog.client.metadata_folder import MetadataFolder
from kraftlog.metadata.features import ELR_FEATURE
from kraftlog.metadata.history import MetadataState, Moment
from kraftlog.records.header import CONTROL_BIT, BatchHeader
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.wire.record_frames import decode_metadata
from tests.client.waiting import partitions_of, until
from tests.interop.kafka_broker import KafkaNodes
from tests.interop.tool_session import CLASSES
from tests.metadata.test_against_kafka import frames_of, normalized
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.metadata.image import Image
    from tests.interop.driver import Driver

#: Controllers of Kafka and of kraftlog; two brokers of Kafka, and one of kraftlog.
KAFKAS_CONTROLLER, OUR_CONTROLLER = 1, 2
BROKERS = (3, 4)
OUR_BROKER = 5
COMMON = """\
node.id={node_id}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={folder}/data-{node_id}
broker.session.timeout.ms=3000
"""
CONTROLLER_FILE = """\
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
"""
BROKER_FILE = """\
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port}
broker.heartbeat.interval.ms=500
offsets.topic.num.partitions=1
offsets.topic.replication.factor=2
"""
#: Kafka keeps ACLs only with an authorizer.
AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
#: Our nodes take snapshots often: the test compares each with Kafka's image.
SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots=1000\n"

#: Types of the records that the changes below write.
RECORD_TYPES = {
    "AccessControlEntryRecord",
    "BrokerRegistrationChangeRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "FeatureLevelRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnregisterBrokerRecord",
    "UnregisterControllerRecord",
    "UserScramCredentialRecord",
}


class Cluster:
    """The active controller is Kafka's. A second controller and one of the brokers are ours."""

    def __init__(self, folder: Path, jvm: Driver, closing: ExitStack) -> None:
        self._folder, self._jvm, self._closing = folder, jvm, closing
        nodes = (KAFKAS_CONTROLLER, OUR_CONTROLLER, *BROKERS, OUR_BROKER)
        self.ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))
        self.kafka = KafkaNodes(folder, closing)
        self._format(KAFKAS_CONTROLLER, CONTROLLER_FILE + AUTHORIZER, "--standalone")
        self._format(OUR_CONTROLLER, CONTROLLER_FILE + SNAPSHOTS, "--no-initial-controllers")
        for broker in BROKERS:
            self._format(broker, BROKER_FILE + AUTHORIZER)
        self._format(OUR_BROKER, BROKER_FILE + SNAPSHOTS)
        self.kafka.start(KAFKAS_CONTROLLER)
        self.ours: list[NodeProcess] = []
        self.start_ours(OUR_CONTROLLER)
        self.kafka.start(*BROKERS)

    def _format(self, node_id: int, template: str, *flags: str) -> None:
        properties = (COMMON + template).format(
            node_id=node_id,
            port=self.ports[node_id],
            controller_port=self.ports[KAFKAS_CONTROLLER],
            folder=self._folder,
        )
        (self._folder / f"{node_id}.properties").write_text(properties)
        format_node(self.file(node_id), *flags)

    def start_ours(self, node_id: int) -> None:
        errors = str(self._folder / f"errors-{node_id}.txt")
        node = NodeProcess(None, self.file(node_id), topics={}, errors=errors)
        self._closing.callback(node.kill_if_running)
        self.ours.append(node)

    def file(self, node_id: int) -> str:
        return str(self._folder / f"{node_id}.properties")

    def metadata(self, node_id: int) -> str:
        return f"{self._folder}/data-{node_id}/__cluster_metadata-0"

    @property
    def servers(self) -> str:
        return ",".join([f"127.0.0.1:{self.ports[broker]}" for broker in BROKERS])

    def run(self, line: str, *words: str) -> None:
        """Run one of Kafka's tools, which asks a broker of Kafka."""
        tool, *arguments = line.split()
        address = ["--bootstrap-server", self.servers]
        # kafka-cluster takes the address after its subcommand.
        if tool == "kafka-cluster":
            address.insert(0, arguments.pop(0))
        self._jvm.tool_once_replayed(CLASSES[tool], *address, *arguments, *words)


@pytest.mark.long
def test_our_image_is_kafkas_at_every_offset(tmp_path: Path, jvm: Driver) -> None:
    """The snapshots that our voter and our broker write equal Kafka's image, too."""
    with ExitStack() as closing:
        cluster = Cluster(tmp_path, jvm, closing)
        client = closing.enter_context(Client(cluster.servers, timeout_s=LIMIT_S))
        add_our_voter(cluster)
        change_topics(cluster)
        change_configs(cluster)
        change_security(cluster)
        add_our_broker(cluster)
        move_replica(cluster, client, tmp_path)
        fail_broker(cluster, client)
        described = client.describe_quorum()
        assert described.leader_id == KAFKAS_CONTROLLER
        committed = described.high_watermark
        until(lambda: lagging_nodes(client, committed), set())
        cluster.kafka.stop(BROKERS[0])
        for node in reversed(cluster.ours):
            assert node.stop() == 0
        cluster.kafka.kill(KAFKAS_CONTROLLER)
        theirs = images_of_kafka(cluster, jvm)
        for node_id in (OUR_CONTROLLER, OUR_BROKER):
            assert record_types(cluster.metadata(node_id)) >= RECORD_TYPES
            assert check_images(cluster.metadata(node_id), theirs) >= committed
            assert check_snapshots(cluster.metadata(node_id), theirs) > 0


def lagging_nodes(client: Client, offset: int) -> set[int]:
    """Our nodes that have not fetched all records before this offset."""
    quorum = client.describe_quorum()
    ends = {each.id: each.log_end_offset for each in (*quorum.voters, *quorum.observers)}
    return {node_id for node_id in (OUR_CONTROLLER, OUR_BROKER) if ends[node_id] < offset}


def add_our_voter(cluster: Cluster) -> None:
    config = ("--command-config", cluster.file(OUR_CONTROLLER))
    cluster.run("kafka-metadata-quorum", *config, "add-controller")


def change_topics(cluster: Cluster) -> None:
    """Create topics, add partitions to one, delete one."""
    places = f"{BROKERS[0]}:{BROKERS[1]},{BROKERS[1]}:{BROKERS[0]}"
    for name in ("orders", "audit", "deleted"):
        cluster.run(f"kafka-topics --create --topic {name} --replica-assignment {places}")
    cluster.run("kafka-topics --create --topic kept --partitions 2 --config cleanup.policy=compact")
    cluster.run("kafka-topics --alter --topic kept --partitions 5")
    cluster.run("kafka-topics --delete --topic deleted")


def change_configs(cluster: Cluster) -> None:
    """Set configs of topics, brokers, all brokers, groups and client metrics; delete one."""
    alter = "kafka-configs --alter --entity-type"
    cluster.run(
        f"{alter} topics --entity-name orders --add-config retention.ms=5000,segment.ms=60000"
    )
    cluster.run(f"{alter} topics --entity-name orders --delete-config segment.ms")
    cluster.run(f"{alter} brokers --entity-name {BROKERS[0]} --add-config log.cleaner.threads=2")
    cluster.run(f"{alter} brokers --entity-default --add-config log.cleaner.threads=1")
    cluster.run(
        f"{alter} groups --entity-name readers --add-config consumer.session.timeout.ms=50000"
    )
    cluster.run(f"{alter} client-metrics --entity-name m --add-config interval.ms=1000")
    producer = Producer({"bootstrap.servers": cluster.servers, "enable.idempotence": True})
    producer.produce("orders", b"one")  # the broker gets a block of producer ids
    assert producer.flush(LIMIT_S) == 0


def change_security(cluster: Cluster) -> None:
    """Set quotas, SCRAM credentials and ACLs; delete some of them."""
    alter = "kafka-configs --alter --entity-type"
    for entity in (
        "users --entity-name alice",
        "users --entity-default",
        "clients --entity-name app",
        "users --entity-name alice --entity-type clients --entity-default",
    ):
        cluster.run(
            f"{alter} {entity} --add-config producer_byte_rate=1024,request_percentage=12.5"
        )
    cluster.run(f"{alter} ips --entity-name 127.0.0.9 --add-config connection_creation_rate=9")
    cluster.run(f"{alter} clients --entity-name app --delete-config producer_byte_rate")
    for name in ("alice", "bob"):
        secret = "SCRAM-SHA-256=[iterations=4096,password=secret]"
        cluster.run(f"{alter} users --entity-name {name} --add-config {secret}")
    cluster.run(f"{alter} users --entity-name bob --delete-config SCRAM-SHA-256")
    acls = "kafka-acls --force"
    cluster.run(f"{acls} --add --allow-principal User:alice --operation Read --topic orders")
    prefixed = "--group g --resource-pattern-type prefixed"
    cluster.run(f"{acls} --add --deny-principal User:bob --operation All {prefixed}")
    cluster.run(f"{acls} --remove --allow-principal User:alice --operation Read --topic orders")


def add_our_broker(cluster: Cluster) -> None:
    """Start our broker after lowering the features whose levels it does not support."""
    for feature in ("transaction.version", ELR_FEATURE):
        cluster.run(f"kafka-features downgrade --feature {feature}=0")
    cluster.start_ours(OUR_BROKER)
    cluster.run(f"kafka-features upgrade --feature {ELR_FEATURE}=1")


def move_replica(cluster: Cluster, client: Client, folder: Path) -> None:
    """Move a replica to our broker, and change its target during the move."""
    plan = folder / "plan.json"
    for replicas in ((OUR_BROKER,), (BROKERS[0], OUR_BROKER)):
        parts = [{"topic": "audit", "partition": 0, "replicas": replicas}]
        plan.write_text(json.dumps({"version": 1, "partitions": parts}))
        words = ("--reassignment-json-file", str(plan))
        cluster.run("kafka-reassign-partitions", *words, "--execute", "--additional")
    until(lambda: [it.replicas for it in partitions_of(client, "audit")][:1], [replicas])
    cluster.run("kafka-leader-election --election-type preferred --all-topic-partitions")


def fail_broker(cluster: Cluster, client: Client) -> None:
    """Kill, restart, stop and unregister a broker of Kafka; unregister our controller."""
    other, failing = BROKERS

    def isr() -> set[int]:
        return {broker for it in partitions_of(client, "orders") for broker in it.isr}

    until(isr, set(BROKERS))
    cluster.kafka.kill(failing)
    until(isr, {other})
    cluster.kafka.start(failing)
    until(isr, set(BROKERS))
    cluster.kafka.stop(failing)
    until(isr, {other})
    cluster.run(f"kafka-cluster unregister --id {failing}")
    cluster.run(f"kafka-cluster unregister-controller --id {OUR_CONTROLLER}")


@cache
def cached_normalized(record: bytes) -> tuple[bytes, str]:
    return normalized(record)


def images_of_kafka(cluster: Cluster, jvm: Driver) -> dict[int, list[tuple[bytes, str]] | None]:
    """The records of Kafka's image after each offset; None before the first metadata.version."""
    segment = f"{cluster.metadata(KAFKAS_CONTROLLER)}/{0:020d}.log"
    images = json.loads(jvm.tool("LogImages", segment).ok().stdout)
    assert [each["offset"] for each in images] == list(range(len(images)))
    return {
        each["offset"]: None
        if each["records"] is None
        else sorted(cached_normalized(b64decode(record)) for record in each["records"])
        for each in images
    }


def record_types(folder: str) -> set[str]:
    """The types of the records in a log."""
    return {
        type(decode_metadata(record.value)[0]).__name__
        for data in MetadataFolder(folder).read(0)
        for position, fields in walk(data)
        for record in read_records(data, position)
        if record.value is not None and not BatchHeader(*fields).attributes & CONTROL_BIT
    }


def records_of(image: Image) -> list[tuple[bytes, str]]:
    return sorted(map(cached_normalized, frames_of(image.records())))


def check_images(folder: str, theirs: dict[int, list[tuple[bytes, str]] | None]) -> int:
    """Compare our image with Kafka's at every offset of our log; return the end of that log."""
    state = MetadataState()
    batches = b"".join(MetadataFolder(folder).read(0))
    compared = 0
    for offset, expected in theirs.items():
        state.replay(batches, Moment(offset=offset))
        if state.offset < offset:
            break  # not committed, or before the start of our log
        if expected is not None:
            assert records_of(state.image) == expected, f"at offset {offset}"
            compared += 1
    assert compared > 0
    return state.offset + 1


def check_snapshots(folder: str, theirs: dict[int, list[tuple[bytes, str]] | None]) -> int:
    """Compare the snapshots of our node; return how many there are."""
    log = MetadataFolder(folder)
    for snapshot in log.snapshots():
        if snapshot.offset:
            state = MetadataState()
            state.load(log.read_snapshot(snapshot), snapshot)
            assert records_of(state.image) == theirs[snapshot.offset - 1]
    return sum(each.offset > 0 for each in log.snapshots())
