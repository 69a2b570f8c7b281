"""Q27: consumers of any kind read the metadata log from a broker, as a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.messages.metadata_records import TopicRecord
from kraftlog.wire.record_frames import decode_metadata
from tests.client.waiting import until
from tests.interop.tool_session import CLASSES
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.interop.driver import Driver
    from tests.server.node_process import NodeProcess


def topics_in(values: Iterable[bytes]) -> list[str]:
    """The names of the topics that these records of the metadata log create."""
    records = [decode_metadata(value)[0] for value in values]
    return [each.name for each in records if isinstance(each, TopicRecord)]


def read_by_librdkafka(address: str, name: str) -> list[bytes]:
    """The values from the start of the log up to the record that creates the topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
    consumer.assign([TopicPartition(METADATA_TOPIC, 0, 0)])
    values: list[bytes] = []
    deadline = Deadline(LIMIT_S)
    try:
        while name not in topics_in(values):
            assert not deadline.is_over, topics_in(values)
            message = consumer.poll(0.1)
            if message is not None:
                value = message.value()
                assert value is not None, message.error()
                values.append(value)
    finally:
        consumer.close()
    return values


def test_q27_metadata_returns_the_topic_only_if_it_is_named(node: NodeProcess) -> None:
    with Client(node.address) as client:
        assert METADATA_TOPIC not in [each.name for each in client.topics()]
        [partition] = client.cluster.topic(METADATA_TOPIC).partitions
        assert (partition.leader, partition.replicas) == (1, (1,))
        until(lambda: client.describe_quorum().high_watermark > 0, True)
        end = client.offsets(METADATA_TOPIC)[0].offset
        assert end <= client.describe_quorum().high_watermark
        assert end > 0
        assert client.offsets(METADATA_TOPIC, "earliest")[0].offset == 0


def test_q27_librdkafka_reads_the_metadata_log(node: NodeProcess) -> None:
    with Client(node.address) as client:
        client.create_topic("later")
    names = topics_in(read_by_librdkafka(node.address, "later"))
    assert [name for name in names if not name.startswith("__")] == ["demo", "later"]


def test_q27_librdkafka_reads_the_metadata_log_beside_another_topic(node: NodeProcess) -> None:
    """Both partitions have one leader, so that librdkafka fetches them with one request."""
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "g"})
    consumer.assign([TopicPartition(METADATA_TOPIC, 0, 0), TopicPartition("demo", 0, 0)])
    values: dict[str, list[bytes]] = {METADATA_TOPIC: [], "demo": []}
    deadline = Deadline(LIMIT_S)
    try:
        with Client(node.address) as client:
            client.produce("demo", b"first", partition=0)
            client.create_topic("later")
            client.produce("demo", b"second", partition=0)
        while "later" not in topics_in(values[METADATA_TOPIC]) or len(values["demo"]) < 2:
            assert not deadline.is_over, values
            message = consumer.poll(0.1)
            if message is not None:
                topic, value = message.topic(), message.value()
                assert topic is not None
                assert value is not None, message.error()
                values[topic].append(value)
    finally:
        consumer.close()
    assert values["demo"] == [b"first", b"second"]


def test_q27_our_consumer_reads_the_metadata_log(node: NodeProcess) -> None:
    with (
        Client(node.address) as client,
        client.consume(METADATA_TOPIC, "beginning", until_end=True) as records,
    ):
        assert topics_in(each.value for each in records if each.value) == ["demo"]


def test_q27_kafkas_console_consumer_reads_the_metadata_log(node: NodeProcess, jvm: Driver) -> None:
    """Without --group the tool uses a generated group id."""
    words = ["--bootstrap-server", node.address, "--topic", METADATA_TOPIC, "--from-beginning"]
    with Client(node.address) as client:
        client.create_topic("some-topic", 1)
    consumer = jvm.tool(CLASSES["kafka-console-consumer"], *words, "--max-messages", "8")
    assert consumer.ok().stdout.count("\n") >= 8


def test_q27_a_broker_that_is_no_voter_serves_the_metadata_log(tmp_path: Path) -> None:
    """Metadata names the broker as the leader, because clients cannot reach the controllers."""
    quorum = Quorum(tmp_path)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        with Client(quorum.address) as client:
            client.create_topic("demo", 1)
            [partition] = client.cluster.topic(METADATA_TOPIC).partitions
            assert (partition.leader, partition.replicas) == (BROKER, CONTROLLERS)
        assert topics_in(read_by_librdkafka(quorum.address, "demo")) == ["demo"]
    finally:
        quorum.end()


def test_q27_the_topic_cannot_be_changed(node: NodeProcess) -> None:
    with Client(node.address, timeout_s=LIMIT_S) as client:
        with pytest.raises(RefusedError, match="is prohibited") as refused:
            client.create_topic(METADATA_TOPIC)
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(RefusedError):
            client.delete_topic(METADATA_TOPIC)
        with pytest.raises(RefusedError):
            client.create_partitions(METADATA_TOPIC, 2)
        with pytest.raises(RefusedError):
            client.alter_configs("topics", METADATA_TOPIC, {"retention.ms": "1"})
    with Client(node.address, timeout_s=1) as client:
        # The error is retriable, so the client repeats both requests until its timeout.
        with pytest.raises(ClientError):
            client.produce(METADATA_TOPIC, b"not a metadata record")
        with pytest.raises(ClientError):
            client.delete_records({(METADATA_TOPIC, 0): -1})
    assert topics_in(read_by_librdkafka(node.address, "demo")) == ["demo"]


def test_q27_an_offset_beyond_the_log_is_out_of_range(node: NodeProcess) -> None:
    settings = {"bootstrap.servers": node.address, "group.id": "g", "auto.offset.reset": "error"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(METADATA_TOPIC, 0, 1 << 40)])
    try:
        message = consumer.poll(LIMIT_S)
        error = None if message is None else message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()
