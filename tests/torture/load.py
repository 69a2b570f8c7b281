"""Clients under torture: one thread each, with a shared journal."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kraftlog import Client
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from tests.time_limit import LIMIT_S
from tests.torture.journal import AcknowledgedRecord, Change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.torture.journal import Journal

GROUP = "readers"
REGISTERS = 3
#: Limit of unacknowledged records of a producer.
MAX_UNACKNOWLEDGED = 300
PADDING = b"." * 150
#: Topics of the loads; small segments are rolled, deleted and compacted often.
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "numbered": (2, {"internal.segment.bytes": "40000"}),
    "flushed": (1, {"flush.messages": "1"}),
    "plain": (2, {}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": "20000",
            "min.cleanable.dirty.ratio": "0.01",
        },
    ),
    "trimmed": (1, {"internal.segment.bytes": "20000"}),
    "retained": (1, {"internal.segment.bytes": "20000", "retention.bytes": "100000"}),
    **{f"register-{number}": (1, {}) for number in range(REGISTERS)},
}
NUMBERED = ("numbered", "flushed", "compacted", "trimmed", "retained")
READ_BY_GROUP = ("numbered", "flushed", "plain")
KEYS = 40


class Load:
    """Threads that work until stopped.

    `pace_s` is the pause between two steps, `members` the number of members of the group.
    """

    def __init__(
        self,
        address: str,
        journal: Journal,
        seed: int,
        pace_s: float = 0.05,
        members: int = 2,
        replicas: int = 1,
    ) -> None:
        self.members = members
        self.replicas = replicas
        self.address = address
        self.journal = journal
        self.seed = seed
        self.pace_s = pace_s
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []

    def create_topics(self) -> None:
        with Client(self.address, timeout_s=LIMIT_S) as client:
            for name, (partitions, configs) in TOPICS.items():
                client.create_topic(name, partitions, self.replicas, configs=configs)
                self.journal.changes.append(Change(name, "create", partitions, True))
                self.journal.topic_ids[name] = repr(client.describe_topic(name).id)

    def start(self) -> None:
        tasks: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
            *[(f"producer-{topic}", self.produce, (topic, True)) for topic in NUMBERED],
            ("producer-plain", self.produce, ("plain", False)),
            *[(f"consumer-{n}", self.consume, (n,)) for n in range(self.members)],
            *[(f"admin-{n}", self.administer, (n,)) for n in range(2)],
            ("trimmer", self.trim, ()),
        ]
        if self.replicas == 1:  # else a broker's metadata may still show the deleted topic
            tasks.append(("remaker", self.remake, ()))
        for name, task, arguments in tasks:
            thread = threading.Thread(target=self._guarded, args=(name, task, arguments), name=name)
            self.threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(LIMIT_S)
            if thread.is_alive():
                assert thread.ident is not None
                stack = traceback.format_stack(sys._current_frames()[thread.ident])
                self.journal.add_problem(f"{thread.name} hangs in {''.join(stack[-2:])}")
                with Client(self.address, timeout_s=LIMIT_S) as client:
                    self.journal.add_problem(f"its group: {client.describe_group(GROUP)}")

    def join(self) -> None:
        """Wait for the threads, up to the time limit of each."""
        for thread in self.threads:
            thread.join(LIMIT_S)

    def _guarded(self, name: str, task: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            task(*arguments)
        except Exception as error:
            self.journal.add_problem(f"{name} died of {error!r}")

    # Records -------------------------------------------------------------------------------------

    def produce(self, topic: str, is_numbered: bool) -> None:
        """Produce unique records; acknowledged ones are recorded with their offsets."""
        rng = random.Random(f"{self.seed} {topic}")
        settings: dict[str, Any] = {
            "bootstrap.servers": self.address,
            # With acks=1 a killed leader may lose records that no follower has.
            "acks": "all" if is_numbered or self.replicas > 1 or rng.random() < 0.5 else "1",
            "enable.idempotence": is_numbered,
            "message.timeout.ms": 60_000,
            "socket.timeout.ms": 10_000,
            "linger.ms": rng.choice([0, 5, 50]),
            "batch.size": 8_000,  # segments are small
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
            "error_cb": lambda error: self._note_if_fatal(topic, error),
        }
        # With more requests in flight, librdkafka may repeat records in a new producer epoch
        # after a change of leader.
        if not is_numbered or self.replicas > 1:
            settings["max.in.flight.requests.per.connection"] = 1
        producer = Producer(settings)
        number = 0
        while not self.stopping.is_set():
            for _ in range(rng.randrange(1, 12)):
                if len(producer) > MAX_UNACKNOWLEDGED:
                    break
                number += 1
                key = b"%d" % rng.randrange(KEYS)
                value = b"%s %d %s" % (topic.encode(), number, PADDING[: rng.randrange(150)])
                self.journal.sent_values.add(value)
                partition = rng.randrange(TOPICS[topic][0])
                producer.produce(topic, value, key, partition, on_delivery=self._on_delivery)
            producer.poll(self.pace_s)
        left = producer.flush(100)
        if left:
            self.journal.add_problem(
                f"{left} records of {topic} were neither acknowledged nor refused"
            )

    def _note_if_fatal(self, topic: str, error: Any) -> None:
        if error.fatal():
            self.journal.add_problem(f"the producer of {topic} can't go on: {error!r}")

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None or message.offset() < 0:
            self.journal.unknown += 1
            return
        self.journal.acknowledged.append(
            AcknowledgedRecord(
                message.topic(),
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
            )
        )

    # A group -------------------------------------------------------------------------------------

    def consume(self, number: int) -> None:
        """Consume as a member of the group; commit offsets, and now and then leave and rejoin."""
        rng = random.Random(f"{self.seed} consumer {number}")
        while not self.stopping.is_set():
            consumer = Consumer(
                {
                    "bootstrap.servers": self.address,
                    "group.id": GROUP,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "session.timeout.ms": 6000,
                    "heartbeat.interval.ms": 1000,
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 2,
                    "socket.timeout.ms": 10_000,
                }
            )
            consumer.subscribe(list(READ_BY_GROUP), on_assign=self._check_committed)
            try:
                for _ in range(rng.randrange(20, 300)):
                    if self.stopping.is_set():
                        break
                    self._read_some(consumer, rng)
            finally:
                consumer.close()

    def _check_committed(self, consumer: Any, partitions: list[Any]) -> None:
        """A new owner of a partition starts no earlier than the highest acknowledged commit."""
        acknowledged = {(p.topic, p.partition): 0 for p in partitions}
        with self.journal.lock:
            acknowledged |= {name: self.journal.committed.get(name, 0) for name in acknowledged}
        try:
            committed = consumer.committed(partitions, timeout=30)
        except KafkaException:
            return
        for position in committed:
            acknowledged_offset = acknowledged[position.topic, position.partition]
            if position.error is None and max(position.offset, 0) < acknowledged_offset:
                self.journal.add_problem(
                    f"{position.topic}-{position.partition} was committed up to "
                    f"{acknowledged_offset}, "
                    f"then found at {position.offset}"
                )

    def _read_some(self, consumer: Any, rng: random.Random) -> None:
        ends: dict[tuple[str, int], int] = {}
        for message in consumer.consume(200, self.pace_s):
            if message.error() is None:
                name = message.topic(), message.partition()
                self.journal.record_consumed(name, message.offset(), message.value())
                ends[name] = message.offset() + 1
        if not ends or rng.random() < 0.3:
            return
        for name, end in ends.items():
            with self.journal.lock:
                self.journal.requested_commits[name].add(end)
        try:
            committed = consumer.commit(
                offsets=[TopicPartition(*name, end) for name, end in ends.items()],
                asynchronous=False,
            )
        except KafkaException:
            return
        for position in committed:
            if position.error is None:
                self.journal.record_commit((position.topic, position.partition), position.offset)

    # The cluster ---------------------------------------------------------------------------------

    def administer(self, number: int) -> None:
        """Create, grow and delete topics of its own; write and read the shared registers."""
        rng = random.Random(f"{self.seed} admin {number}")
        own_topics: dict[str, int] = {}
        created = 0
        with Client(self.address, timeout_s=20) as client:
            while not self.stopping.wait(rng.random() * 6 * self.pace_s):
                choice = rng.random()
                if choice < 0.5:
                    self._use_register(client, rng, number)
                elif choice < 0.75 or not own_topics:
                    created += 1
                    name, partitions = f"made-{number}-{created}", rng.randrange(1, 4)
                    configs = {"retention.ms": str(rng.randrange(10**6, 10**9))}
                    if self._change(
                        Change(name, "create", partitions, False),
                        partial(
                            client.create_topic, name, partitions, self.replicas, configs=configs
                        ),
                        ErrorCode.TOPIC_ALREADY_EXISTS,
                    ):
                        own_topics[name] = partitions
                        self._note_id(client, name)
                elif choice < 0.87:
                    name = rng.choice(sorted(own_topics))
                    count = own_topics[name] = own_topics[name] + 1
                    self._change(
                        Change(name, "grow", count, False),
                        lambda: client.create_partitions(name, count),  # noqa: B023 - called at once
                        ErrorCode.INVALID_PARTITIONS,
                    )
                else:
                    name = rng.choice(sorted(own_topics))
                    del own_topics[name]
                    self._change(
                        Change(name, "delete", 0, False),
                        lambda: client.delete_topic(name),  # noqa: B023 - called at once
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )

    def _change(self, change: Change, attempt: Callable[[], None], done_already: int) -> bool:
        """Attempt a change; return whether it is known to be done.

        `done_already` is the error code that means that an earlier attempt has made the change, but
        its response was lost.
        """
        done = False
        try:
            attempt()
            done = True
        except RefusedError as error:
            done = error.code == done_already
        except (ClientError, OSError):
            pass
        with self.journal.lock:
            self.journal.changes.append(change.replace(is_done=done))
        return done

    def _note_id(self, client: Client, name: str) -> None:
        try:
            topic_id = repr(client.describe_topic(name).id)
        except (ClientError, OSError):
            return
        if self.journal.topic_ids.setdefault(name, topic_id) != topic_id:
            self.journal.add_problem(f"{name} was {self.journal.topic_ids[name]}, then {topic_id}")

    def _use_register(self, client: Client, rng: random.Random, number: int) -> None:
        """Write a unique value to a register, or read one.

        A read is journalled as if it had begun at 0: through a broker, it may return an old value.
        """
        register = f"register-{rng.randrange(REGISTERS)}"
        journal = self.journal
        invoked = journal.now()
        if rng.random() < 0.5:
            value = str(10**9 + invoked * 10 + number)
            returned = None
            try:
                client.alter_configs("topics", register, {"retention.ms": value})
                returned = journal.now()
            except (ClientError, OSError):
                pass
            journal.record_call(
                f"admin-{number}", (register, "write", value), invoked, returned, None
            )
            return
        try:
            read_value = value_of(client, register)
        except (ClientError, OSError):
            return
        journal.record_call(f"admin-{number}", (register, "read"), 0, journal.now(), read_value)

    def trim(self) -> None:
        """Delete the oldest records now and then."""
        rng = random.Random(f"{self.seed} trimmer")
        name = ("trimmed", 0)
        with Client(self.address, timeout_s=20) as client:
            while not self.stopping.wait(10 * self.pace_s):
                try:
                    end = client.offsets(*name[:1])[0].offset
                    before = max(self.journal.trim_requested, end - rng.randrange(20, 200))
                    self.journal.trim_requested = before
                    start = client.delete_records({name: before})[name]
                except (ClientError, OSError):
                    continue
                if start < before:
                    self.journal.add_problem(f"{name} begins at {start}, requested {before}")
                self.journal.trimmed_to = max(self.journal.trimmed_to, start)

    def remake(self) -> None:
        """Create, write and delete a topic, again and again under the same name."""
        name, incarnation = "remade", 0
        with Client(self.address, timeout_s=20) as client:
            while not self.stopping.wait(self.pace_s):
                incarnation += 1
                self._change(
                    Change(name, "create", 1, False),
                    lambda: client.create_topic(name, 1, self.replicas),
                    ErrorCode.TOPIC_ALREADY_EXISTS,
                )
                self._write_remade(client, name, incarnation)
                if self.stopping.is_set():
                    return
                self._change(
                    Change(name, "delete", 0, False),
                    lambda: client.delete_topic(name),
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )

    def _write_remade(self, client: Client, name: str, incarnation: int) -> None:
        for number in range(20):
            value = b"incarnation %d number %d" % (incarnation, number)
            self.journal.sent_values.add(value)
            try:
                before = repr(client.describe_topic(name).id)
                _, offset = client.produce(name, value, partition=0)
                after = repr(client.describe_topic(name).id)
            except (ClientError, OSError):
                continue
            if before == after and offset >= 0:
                self.journal.recreated.setdefault(after, {})[offset] = value
            time.sleep(self.pace_s / 5)


def value_of(client: Client, register: str) -> str | None:
    """The value of a register; None before the first write."""
    for setting in client.describe_configs("topics", register):
        if setting.name == "retention.ms":
            return setting.value if setting.source == "DYNAMIC_TOPIC_CONFIG" else None
    raise ValueError(f"{register} has no retention.ms")


def read_all(address: str, topics: Mapping[str, int]) -> dict[str, list[Any]]:
    """Every record of each topic."""
    all_records: dict[str, list[Any]] = {}
    with Client(address, timeout_s=LIMIT_S) as client:
        for topic in topics:
            with client.consume(topic, "beginning", until_end=True) as consumed:
                all_records[topic] = list(consumed)
    return all_records
