"""Third-party clients: produce to a topic and consume from it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
from typing import TYPE_CHECKING, Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.interop.driver import Driver

TOPIC = "demo"
#: Settings of a Python consumer without a group, which assigns its partitions itself.
WITHOUT_GROUP = {"group_id": None, "enable_auto_commit": False}
#: The Java package of Kafka's command-line tools, before the name of a class.
KAFKA_TOOLS = "org.apache.kafka.tools."


# librdkafka ---------------------------------------------------------------------------------------


def produce_all(address: str, values: Sequence[bytes], **settings: Any) -> None:
    """Produce the values and wait for their acknowledgements."""
    failures: list[Any] = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": address, **settings})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=on_delivery)
    assert producer.flush(LIMIT_S) == 0
    assert failures == []


def consume(address: str, count: int, **settings: Any) -> list[bytes]:
    """Consume the first `count` values; their offsets must have no gap."""
    unnamed = {"group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **unnamed, **settings})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    try:
        while len(values) < count:
            messages = consumer.consume(count - len(values), LIMIT_S)
            assert messages, f"only {len(values)} of {count} records were read"
            for message in messages:
                assert message.error() is None, message.error()
                assert message.offset() == len(values)
                values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def consume_in_group(address: str, count: int) -> list[bytes]:
    """Consume the first `count` values in a consumer group."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    values: list[bytes] = []
    try:
        while len(values) < count:
            messages = consumer.consume(count - len(values), LIMIT_S)
            assert messages, f"only {len(values)} of {count} records were read"
            for message in messages:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def end_offset(address: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), LIMIT_S)[1]
    finally:
        consumer.close()
    return end


def list_topics(address: str) -> dict[str, int]:
    """Topics and their partition counts."""
    topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=LIMIT_S).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def run_kcat(kcat: str, address: str, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        [kcat, "-b", address, *arguments],
        input=stdin,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


# kafka-python -------------------------------------------------------------------------------------

#: For tests of kafka-python, which leaks a socket if connecting fails.
LEAVES_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def kafka_python_produce(address: str, values: Sequence[bytes], codec: str | None = None) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address, enable_idempotence=False, compression_type=codec, linger_ms=20
    )
    try:
        futures = [producer.send(TOPIC, value, partition=0) for value in values]
        offsets = [future.get(LIMIT_S).offset for future in futures]
    finally:
        producer.close(LIMIT_S)
        gc.collect()  # while the warning of LEAVES_SOCKETS is ignored
    assert offsets == list(range(offsets[0], offsets[0] + len(values)))


def kafka_python_consume(address: str, count: int) -> list[bytes]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, **WITHOUT_GROUP)
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        values: list[bytes] = []
        while len(values) < count:
            polled = consumer.poll(timeout_ms=LIMIT_S * 1000)
            assert polled, f"only {len(values)} of {count} records were read"
            values += [record.value for record in polled[partition]]
    finally:
        consumer.close(autocommit=False)
        gc.collect()
    return values


# aiokafka -----------------------------------------------------------------------------------------


def aiokafka_produce(address: str, values: Sequence[bytes], codec: str | None = None) -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, compression_type=codec, linger_ms=20
        )
        await producer.start()
        try:
            futures = [await producer.send(TOPIC, value, partition=0) for value in values]
            offsets = [(await future).offset for future in futures]
        finally:
            await producer.stop()
        assert offsets == list(range(offsets[0], offsets[0] + len(values)))

    asyncio.run(asyncio.wait_for(work(), LIMIT_S))


def aiokafka_consume(address: str, count: int) -> list[bytes]:
    async def work() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, **WITHOUT_GROUP)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [(await consumer.getone()).value for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(work(), LIMIT_S))


# Kafka's own tools --------------------------------------------------------------------------------


def java_produce(
    jvm: Driver, address: str, values: Sequence[bytes], codec: str | None = None
) -> None:
    done = jvm.tool(
        KAFKA_TOOLS + "ConsoleProducer",
        *("--bootstrap-server", address, "--topic", TOPIC),
        *("--command-property", "enable.idempotence=false"),
        *("--command-property", f"compression.type={codec or 'none'}"),
        stdin=b"".join([value + b"\n" for value in values]),
    ).ok()
    assert "ERROR" not in done.stderr, done.stderr


def java_consume(jvm: Driver, address: str, count: int, start: str = "earliest") -> list[bytes]:
    done = jvm.tool(
        KAFKA_TOOLS + "consumer.ConsoleConsumer",
        *("--bootstrap-server", address, "--topic", TOPIC, "--partition", "0"),
        *("--offset", start, "--max-messages", str(count), "--timeout-ms", str(LIMIT_S * 1000)),
    ).ok()
    return done.stdout_bytes.splitlines()


def java_consume_in_group(jvm: Driver, address: str, count: int) -> list[bytes]:
    done = jvm.tool(
        KAFKA_TOOLS + "consumer.ConsoleConsumer",
        *("--bootstrap-server", address, "--topic", TOPIC, "--group", "java-readers"),
        *("--from-beginning", "--max-messages", str(count), "--timeout-ms", str(LIMIT_S * 1000)),
    ).ok()
    return done.stdout_bytes.splitlines()


def java_offset(jvm: Driver, address: str, time: str) -> str:
    """The output of GetOffsetShell, `topic:partition:offset`, for its option --time."""
    words = ("--bootstrap-server", address, "--topic", TOPIC, "--time", time)
    return jvm.tool(KAFKA_TOOLS + "GetOffsetShell", *words).ok().stdout.strip()
