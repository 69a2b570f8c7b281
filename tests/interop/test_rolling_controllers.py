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
from tests.patience import LIMIT_S
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

TOPIC = "orders"
#: Records acknowledged between two changes, at least.
BETWEEN = 50
MORE = "offsets.topic.replication.factor=1\n"


class Load:
    """A producer with acks=all that never stops; `acknowledged` are its numbers, in order."""

    def __init__(self, servers: str) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._ends = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.005):
            self._producer.produce(TOPIC, str(number), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(LIMIT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged.append(int(message.value() or b""))

    def go_on(self) -> None:
        """Wait until more records are acknowledged."""
        deadline, enough = Deadline(LIMIT_S), len(self.acknowledged) + BETWEEN
        while len(self.acknowledged) < enough:
            assert not deadline.is_over, self.errors
            deadline.pause(0.01)


@pytest.mark.long
def test_r12_controllers_of_kafka_are_replaced_one_by_one_and_back(tmp_path: Path) -> None:
    """Under acks=all load on Kafka's broker nothing is lost; topics are created at every step."""
    quorum = Quorum(tmp_path, MORE)
    with ExitStack() as closing:
        closing.callback(quorum.end)
        kafka = KafkaNodes(tmp_path, closing)
        kafka.start(*CONTROLLERS, BROKER)
        address = f"127.0.0.1:{quorum.ports[BROKER]}"
        client = closing.enter_context(Client(address, timeout_s=LIMIT_S))
        created = [TOPIC]
        client.create_topic(TOPIC)

        def step() -> None:
            created.append(f"topic-{len(created)}")
            client.create_topic(created[-1])
            load.go_on()

        load = Load(address)
        with load.running():
            for controller in CONTROLLERS:
                kafka.stop(controller)
                quorum.start(controller)
                step()
            for controller in CONTROLLERS:
                quorum.nodes.pop(controller).stop()
                kafka.start(controller)
                step()
        assert not load.errors
        until(lambda: {topic.name for topic in client.topics()}, set(created))
        with client.consume(TOPIC, "beginning") as records:
            values = [int(next(records).value or b"") for _ in load.acknowledged]
        assert values == load.acknowledged
