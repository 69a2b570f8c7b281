"""Consumers of others that speak the consumer group protocol, against a node in its own process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from kraftlog.client.deadline import Deadline
from tests.server.clients import KAFKA_TOOLS
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

TOPIC, PARTITIONS, RECORDS = "shared", 6, 600
#: So that members hear of changes at once.
FAST = (
    "group.consumer.min.heartbeat.interval.ms=50",
    "group.consumer.heartbeat.interval.ms=50",
    "group.consumer.assignment.interval.ms=0",
)
CONSUMER_GROUPS = KAFKA_TOOLS + "consumer.group.ConsumerGroupCommand"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    overrides = [word for setting in FAST for word in ("--override", setting)]
    node = NodeProcess(
        str(tmp_path / "data"),
        *overrides,
        errors=str(tmp_path / "errors.txt"),
        topics={TOPIC: PARTITIONS},
    )
    yield node
    node.kill_if_running()
    assert node.logged_errors() == []


def produce(address: str, count: int = RECORDS) -> None:
    """Write records to all partitions in turn."""
    producer = Producer({"bootstrap.servers": address})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


class Members:
    """Consumers of one group, which are polled in turn."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.consumers: list[Consumer] = []
        self.values: set[bytes] = set()

    def add(self, topic: str = TOPIC, **settings: Any) -> Consumer:
        chosen = {
            "bootstrap.servers": self._address,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
        consumer = Consumer(chosen)
        consumer.subscribe([topic])
        self.consumers.append(consumer)
        return consumer

    def poll_until(self, is_done: Callable[[], bool]) -> None:
        deadline = Deadline(LIMIT_S)
        while not is_done():
            assert not deadline.is_over, [len(each.assignment()) for each in self.consumers]
            for consumer in self.consumers:
                message = consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.values.add(message.value() or b"")

    def shares(self) -> list[int]:
        return [len(consumer.assignment()) for consumer in self.consumers]

    def close(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()


def test_members_of_librdkafka_share_a_topic_and_hand_it_over(node: NodeProcess) -> None:
    produce(node.address)
    members = Members(node.address)
    first = members.add()
    members.poll_until(lambda: len(members.values) == RECORDS)
    first.commit(asynchronous=False)
    members.add()
    members.poll_until(lambda: members.shares() == [3, 3])
    # The part that stayed with the first member was not revoked: it goes on where it was.
    members.values.clear()
    produce(node.address)
    members.poll_until(lambda: len(members.values) == RECORDS)
    for consumer in members.consumers:
        consumer.commit(asynchronous=False)
    members.close(first)
    members.poll_until(lambda: members.shares() == [6])
    admin = AdminClient({"bootstrap.servers": node.address})
    group = admin.describe_consumer_groups(["g"])["g"].result()
    assert (group.state.name, group.type.name, len(group.members)) == ("STABLE", "CONSUMER", 1)
    members.close(members.consumers[0])
    asked = [ConsumerGroupTopicPartitions("g")]
    offsets = admin.list_consumer_group_offsets(asked)["g"].result().topic_partitions
    assert {each.offset for each in offsets} == {2 * RECORDS // PARTITIONS}


def test_the_node_resolves_the_expression_of_a_member_of_librdkafka(node: NodeProcess) -> None:
    """Nothing else is told to the member: it sends the expression, and the node finds the topic."""
    produce(node.address)
    members = Members(node.address)
    members.add("^sha.*d")
    members.poll_until(lambda: len(members.values) == RECORDS)
    assert members.shares() == [PARTITIONS]
    admin = AdminClient({"bootstrap.servers": node.address})
    [member] = admin.describe_consumer_groups(["g"])["g"].result().members
    assert len(member.assignment.topic_partitions) == PARTITIONS
    members.close(members.consumers[0])


def test_members_of_librdkafka_change_protocols_one_by_one_and_back(
    node: NodeProcess,
) -> None:
    """One by one, while they read: no record is missing, and offsets are kept."""
    admin = AdminClient({"bootstrap.servers": node.address})

    def kind() -> str:
        found = admin.list_consumer_groups().result().valid
        return str(next(group.type.name for group in found if group.group_id == "g"))

    def read_on() -> None:
        members.values.clear()
        produce(node.address)
        members.poll_until(lambda: len(members.values) == RECORDS)
        for consumer in members.consumers:
            consumer.commit(asynchronous=False)

    classic: dict[str, Any] = {
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 100,
    }
    members = Members(node.address)
    first = members.add(**classic)
    read_on()
    assert kind() == "CLASSIC"
    second = members.add()
    members.poll_until(lambda: members.shares() == [3, 3])
    assert kind() == "CONSUMER"
    read_on()
    third = members.add(**classic)
    members.poll_until(lambda: members.shares() == [2, 2, 2])
    read_on()
    members.close(first)
    members.poll_until(lambda: members.shares() == [3, 3])
    assert kind() == "CONSUMER"
    members.close(second)
    members.poll_until(lambda: members.shares() == [6])
    assert kind() == "CLASSIC"
    read_on()
    members.close(third)
    asked = [ConsumerGroupTopicPartitions("g")]
    offsets = admin.list_consumer_group_offsets(asked)["g"].result().topic_partitions
    assert {each.offset for each in offsets} == {4 * RECORDS // PARTITIONS}


def test_a_member_of_librdkafka_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The group, its epochs and its assignment are in the log."""
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    node = NodeProcess(data, errors=errors, topics={TOPIC: PARTITIONS})
    port = node.port
    members = Members(node.address)
    try:
        produce(node.address)
        members.add()
        members.poll_until(lambda: len(members.values) == RECORDS)
        members.consumers[0].commit(asynchronous=False)
        node.kill()
        node = NodeProcess(data, "--port", str(port), errors=errors, topics={})
        members.values.clear()
        produce(node.address)
        members.poll_until(lambda: len(members.values) == RECORDS)
        assert members.shares() == [6]
        members.consumers[0].commit(asynchronous=False)
        members.close(members.consumers[0])
    finally:
        node.kill_if_running()


def test_kafkas_consumers_share_a_topic_and_its_tools_show_it(
    node: NodeProcess, jvm: Driver
) -> None:
    server = ("--bootstrap-server", node.address)
    read = (
        *("--topic", TOPIC, "--group", "java", "--from-beginning"),
        *("--command-property", "group.protocol=consumer"),
    )

    def members() -> list[str]:
        """The lines of the members."""
        shown = jvm.tool(CONSUMER_GROUPS, *server, "--describe", "--group", "java", "--members")
        return [line for line in shown.stdout.splitlines() if line.startswith("java")]

    first = jvm.start_tool(KAFKA_TOOLS + "consumer.ConsoleConsumer", *server, *read)
    wait_for(lambda: [int(line.split()[4]) for line in members()] == [6])
    second = jvm.start_tool(KAFKA_TOOLS + "consumer.ConsoleConsumer", *server, *read)
    wait_for(lambda: [int(line.split()[4]) for line in members()] == [3, 3])
    produce(node.address)
    shown = jvm.tool(CONSUMER_GROUPS, *server, "--describe", "--group", "java", "--state").ok()
    assert "Stable" in shown.stdout
    listed = jvm.tool(CONSUMER_GROUPS, *server, "--list", "--type", "--state").ok().stdout
    assert [line.split() for line in listed.splitlines() if "java" in line] == [
        ["java", "Consumer", "Stable"]
    ]
    wait_for(lambda: lag_of(jvm, node) == 0)
    values = first.stop().stdout_bytes.split() + second.stop().stdout_bytes.split()
    assert sorted(values) == sorted(b"%d" % number for number in range(RECORDS))
    wait_for(lambda: members() == [])
    jvm.tool(CONSUMER_GROUPS, *server, "--delete", "--group", "java").ok()


def lag_of(jvm: Driver, node: NodeProcess) -> int:
    """The group's lag over all partitions, as Kafka's tool shows it."""
    server = ("--bootstrap-server", node.address)
    shown = jvm.tool(CONSUMER_GROUPS, *server, "--describe", "--group", "java").stdout
    lags = [line.split()[5] for line in shown.splitlines() if line.startswith("java")]
    return sum([int(lag) if lag != "-" else RECORDS for lag in lags]) if len(lags) == 6 else RECORDS


def wait_for(is_done: Callable[[], bool]) -> None:
    deadline = Deadline(LIMIT_S)
    while not is_done():
        assert not deadline.is_over
        deadline.pause(0.05)
