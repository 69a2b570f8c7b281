"""Nodes whose listeners all have TLS, in processes of their own, and clients of every kind."""

from __future__ import annotations

import asyncio
import gc
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kraftlog import Client
from kraftlog.errors import ClientError
from tests.certificates import Certificates
from tests.server.clients import KAFKA_TOOLS, LEAVES_SOCKETS, TOPIC
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.driver import Driver

#: Larger than what is copied of a file at once, and than a record of TLS.
VALUES = [bytes([n]) * 300_000 for n in range(20)]
PASSWORD = "secret-1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def overrides(certificates: Certificates, **more: str) -> list[str]:
    """All listeners have TLS, and nodes show certificates to each other, as clients must."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.key.password": PASSWORD,
        **certificates.settings(ssl_client_auth="required", **more),
    }
    return [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = LocalCluster(folder, *overrides(certificates))
    try:
        with client(cluster.servers, certificates) as admin:
            admin.create_topic(TOPIC, partitions=1)
        yield cluster
    finally:
        cluster.end()


def client(servers: str, certificates: Certificates, own: str | None = "client") -> Client:
    return Client(servers, timeout_s=LIMIT_S, security=certificates.properties(own))


def test_our_client_and_librdkafka_write_and_read(
    cluster: LocalCluster, certificates: Certificates
) -> None:
    security = {"bootstrap.servers": cluster.servers, **certificates.librdkafka("client")}
    producer = Producer({**security, "acks": "all"})
    for value in VALUES:
        producer.produce(TOPIC, value)
    assert producer.flush(LIMIT_S) == 0
    consumer = Consumer({**security, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []
    while len(values) < len(VALUES):
        messages = consumer.consume(len(VALUES) - len(values), LIMIT_S)
        assert messages
        values += [message.value() for message in messages]
    consumer.close()
    assert values == VALUES
    with (
        client(cluster.servers, certificates) as ours,
        ours.consume(TOPIC, start="beginning", until_end=True) as records,
    ):
        assert [record.value for record in records][: len(VALUES)] == VALUES


@LEAVES_SOCKETS
def test_kafka_python_writes_and_reads(cluster: LocalCluster, certificates: Certificates) -> None:
    security: dict[str, Any] = {
        "bootstrap_servers": cluster.servers,
        "security_protocol": "SSL",
        "ssl_context": certificates.context("client"),
    }
    producer = kafka.KafkaProducer(**security, acks="all")
    offset = producer.send(TOPIC, b"by kafka-python", partition=0).get(LIMIT_S).offset
    producer.close(LIMIT_S)
    consumer = kafka.KafkaConsumer(**security, group_id=None, enable_auto_commit=False)
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    polled = consumer.poll(timeout_ms=LIMIT_S * 1000)
    consumer.close(autocommit=False)
    gc.collect()
    assert polled[partition][0].value == b"by kafka-python"


def test_aiokafka_writes_and_reads(cluster: LocalCluster, certificates: Certificates) -> None:
    security: dict[str, Any] = {
        "bootstrap_servers": cluster.servers,
        "security_protocol": "SSL",
        "ssl_context": certificates.context("client"),
    }

    async def work() -> None:
        async with aiokafka.AIOKafkaProducer(**security, acks="all") as producer:
            sent = await producer.send_and_wait(TOPIC, b"by aiokafka", partition=0)
        consumer = aiokafka.AIOKafkaConsumer(**security, group_id=None, enable_auto_commit=False)
        async with consumer:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            assert (await consumer.getone()).value == b"by aiokafka"

    asyncio.run(asyncio.wait_for(work(), LIMIT_S))


@pytest.mark.interop
def test_kafkas_tools_write_and_read(
    cluster: LocalCluster, certificates: Certificates, jvm: Driver, tmp_path: Path
) -> None:
    """Java takes keys only as PKCS#8, and the listener's certificate as PEM."""
    from cryptography.hazmat.primitives import serialization as form

    text = Path(certificates.file("client")).read_bytes()
    key = form.load_pem_private_key(text, None).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )
    own = tmp_path / "client.pem"
    own.write_bytes(key + text[text.index(b"-----BEGIN CERTIFICATE") :])
    properties = {**certificates.properties("client"), "ssl.keystore.location": str(own)}
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    server = ("--bootstrap-server", cluster.servers, "--topic", "by-java")
    jvm.tool(
        KAFKA_TOOLS + "TopicCommand",
        *(*server, "--command-config", str(config), "--create", "--replication-factor", "3"),
    ).ok()
    jvm.tool(
        KAFKA_TOOLS + "ConsoleProducer",
        *(*server, "--command-config", str(config)),
        stdin=b"one\ntwo\n",
    ).ok()
    read = jvm.tool(
        KAFKA_TOOLS + "consumer.ConsoleConsumer",
        *(*server, "--command-config", str(config), "--from-beginning", "--max-messages", "2"),
        *("--timeout-ms", str(LIMIT_S * 1000)),
    ).ok()
    assert read.stdout_bytes.splitlines() == [b"one", b"two"]


def test_a_client_without_a_certificate_is_refused(
    cluster: LocalCluster, certificates: Certificates
) -> None:
    with (
        client(cluster.servers, certificates, own=None) as ours,
        pytest.raises(ClientError, match=r"certificate.required|closed|reset"),
    ):
        ours.topics()


def test_a_killed_leader_is_replaced_and_nothing_is_lost(
    cluster: LocalCluster, certificates: Certificates
) -> None:
    """Brokers replicate, and controllers elect, by way of TLS alone."""
    with client(cluster.servers, certificates) as ours:
        ours.create_topic("replicated", partitions=3)
        with ours.producer() as producer:
            for number in range(300):
                producer.send("replicated", b"%d" % number)
        cluster.kill(1, signal.SIGKILL)
        with ours.producer() as producer:
            for number in range(300, 600):
                producer.send("replicated", b"%d" % number)
        cluster.restart(1)
        with ours.consume("replicated", start="beginning", until_end=True) as records:
            values = sorted(int(record.value or b"") for record in records)
        assert values == list(range(600))


def test_no_secret_is_written(cluster: LocalCluster, certificates: Certificates) -> None:
    """Neither to the log nor to the data, nor in the response of DescribeConfigs."""
    with client(cluster.servers, certificates) as ours:
        configs = ours.describe_configs("brokers", "1")
    assert "ssl.key.password" in [each.name for each in configs]
    assert PASSWORD not in repr(configs)
    assert PASSWORD not in cluster.output()
    for path in Path(cluster.data).rglob("*"):
        if path.is_file() and path.suffix != ".properties":
            assert PASSWORD.encode() not in path.read_bytes(), path
