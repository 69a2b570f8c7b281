"""Controllers of Apache Kafka are replaced by kraftlog's on the same directories, and back."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kraftlog.client.client import Client
from kraftlog.client.deadline import Deadline
from tests.client.waiting import until
from tests.interop.kafka_broker import KafkaNodes
from tests.server.quorum_of_processes import BROKER, BROKER_FILE, CONTROLLERS, Quorum
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

TOPIC = "orders"
#: How many records must be acknowledged between two changes, at least.
MIN_RECORDS = 50
BROKERS = (BROKER, 5, 6)
SETTINGS = "default.replication.factor=3\nmin.insync.replicas=2\n"


class Load:
    """An idempotent producer in a thread; `acknowledged` has the acknowledged numbers in order."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._stopping = threading.Event()
        # Five requests in flight are the default of Kafka's own producer, and the most that
        # librdkafka sends if it is idempotent.
        settings = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 5}
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", **settings})
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.005):
            self._producer.produce(TOPIC, str(number), on_delivery=self._on_delivery)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(LIMIT_S) == 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged.append(int(message.value() or b""))

    def await_more(self) -> None:
        """Wait until MIN_RECORDS more records are acknowledged."""
        deadline, awaited = Deadline(LIMIT_S), len(self.acknowledged) + MIN_RECORDS
        while len(self.acknowledged) < awaited:
            assert not deadline.is_over, self.errors
            deadline.pause(0.01)


class Cluster:
    """Three controllers, each a process of Kafka or of kraftlog, and three brokers of Kafka."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._ours = Quorum(folder, SETTINGS)
        closing.callback(self._ours.end)
        self._ours.prepare(*BROKERS[1:], template=BROKER_FILE)
        self.kafka = KafkaNodes(folder, closing)
        self.kafka.start(*CONTROLLERS, *BROKERS)
        self.servers = ",".join([f"127.0.0.1:{self._ours.ports[broker]}" for broker in BROKERS])
        self.client = closing.enter_context(Client(self.servers, timeout_s=LIMIT_S))
        self._created: list[str] = []

    def controllers_active_last(self) -> list[int]:
        active = self.client.describe_quorum().leader_id
        return sorted(CONTROLLERS, key=lambda controller: controller == active)

    def replace_by_ours(self, controller: int) -> None:
        self.kafka.stop(controller)
        self._ours.start(controller)
        self._await(controller)

    def replace_by_kafka(self, controller: int) -> None:
        self._ours.nodes.pop(controller).stop()
        self.kafka.start(controller)
        self._await(controller)

    def kill_active(self) -> None:
        """Kill the active controller, of either program, and start it again."""
        active = self.client.describe_quorum().leader_id
        if active in self.kafka.running:
            self.kafka.kill(active)
            self.create_topic()
            self.kafka.start(active)
        else:
            self._ours.kill(active)
            self.create_topic()
            self._ours.start(active)
        self._await(active)

    def _await(self, controller: int) -> None:
        """Wait until the voter's log end has reached the high watermark."""

        def has_caught_up() -> bool:
            quorum = self.client.describe_quorum()
            ends = {voter.id: voter.log_end_offset for voter in quorum.voters}
            return ends[controller] >= quorum.high_watermark > 0

        until(has_caught_up, expected=True)

    def create_topic(self, name: str | None = None) -> None:
        self._created.append(name or f"topic-{len(self._created)}")
        self.client.create_topic(self._created[-1])

    def expect_topics(self) -> None:
        until(lambda: {topic.name for topic in self.client.topics()}, set(self._created))

    def kill_leader(self) -> None:
        """Kill the broker that leads the topic, and wait for another leader."""
        killed = self.client.describe_topic(TOPIC).partitions[0].leader
        self.kafka.kill(killed)

        def has_another_leader() -> bool:
            return self.client.describe_topic(TOPIC).partitions[0].leader not in {killed, -1}

        until(has_another_leader, expected=True)


@pytest.mark.long
@pytest.mark.usefixtures("kafka_jars")
def test_r12_controllers_of_kafka_are_replaced_one_by_one_and_back(tmp_path: Path) -> None:
    """No acknowledged record is lost on three brokers; topics can be created at every step.

    The active controller is killed once while both programs vote. At the end the topic's leader is
    killed: the other brokers have all acknowledged records.
    """
    with ExitStack() as closing:
        cluster = Cluster(tmp_path, closing)
        cluster.create_topic(TOPIC)
        load = Load(cluster.servers)
        with load.running():
            load.await_more()
            for number, controller in enumerate(cluster.controllers_active_last()):
                cluster.replace_by_ours(controller)
                cluster.create_topic()
                load.await_more()
                if number == 1:
                    cluster.kill_active()
                    load.await_more()
            for controller in cluster.controllers_active_last():
                cluster.replace_by_kafka(controller)
                cluster.create_topic()
                load.await_more()
        assert not load.errors
        cluster.expect_topics()
        cluster.kill_leader()
        with cluster.client.consume(TOPIC, "beginning") as records:
            values = [int(next(records).value or b"") for _ in load.acknowledged]
        assert values == load.acknowledged
