"""Clients of others log in by each mechanism, produce and consume."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kraftlog import Client
from tests.server.clients import TOPIC, WITHOUT_GROUP, consume, produce_all
from tests.server.node_process import NodeProcess
from tests.server.sasl_node import MECHANISMS, PASSWORD, USER, login, sasl_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("sasl")
    with sasl_node(folder, "connections.max.reauth.ms=3000\n") as started:
        with Client(started.address, timeout_s=LIMIT_S, security=login()) as client:
            client.create_topic(TOPIC, partitions=1)
        yield started


def python_login(mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """The settings of both Python clients."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


def librdkafka_login(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in(node: NodeProcess, mechanism: str) -> None:
    settings = librdkafka_login(mechanism)
    produce_all(node.address, VALUES, **settings)
    assert consume(node.address, len(VALUES), **settings) == VALUES


def test_librdkafka_reports_a_refused_login(node: NodeProcess) -> None:
    errors: list[str] = []
    settings = librdkafka_login("SCRAM-SHA-256", "wrong")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.address,
            "error_cb": lambda error: errors.append(error.name()),
            **settings,
        }
    )
    for _ in range(LIMIT_S * 10):
        producer.poll(0.1)
        if "_AUTHENTICATION" in errors:
            return
    raise AssertionError(errors)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(node: NodeProcess, mechanism: str) -> None:
    settings = {"bootstrap_servers": node.address, **python_login(mechanism)}
    producer = kafka.KafkaProducer(**settings)
    try:
        for value in VALUES:
            producer.send(TOPIC, value, partition=0).get(LIMIT_S)
    finally:
        producer.close(LIMIT_S)
    consumer = kafka.KafkaConsumer(**settings, **WITHOUT_GROUP)
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        polled = consumer.poll(timeout_ms=LIMIT_S * 1000)
    finally:
        consumer.close(autocommit=False)
        gc.collect()
    assert [record.value for record in polled[partition]][: len(VALUES)] == VALUES


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(node: NodeProcess, mechanism: str) -> None:
    settings = {"bootstrap_servers": node.address, **python_login(mechanism)}

    async def work() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        try:
            for value in VALUES:
                await producer.send_and_wait(TOPIC, value, partition=0)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings, **WITHOUT_GROUP)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(work(), LIMIT_S)) == VALUES


def test_aiokafka_reports_a_refused_login(node: NodeProcess) -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.address, **python_login("PLAIN", "wrong")
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(asyncio.wait_for(work(), LIMIT_S))
