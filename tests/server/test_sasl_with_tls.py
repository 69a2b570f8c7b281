"""SASL_SSL: logins on connections with TLS, of clients and of the node itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiokafka
import pytest

from kraftlog import Client
from kraftlog.errors import AuthenticationError, ClientError
from tests.certificates import Certificates
from tests.server.clients import TOPIC, consume, produce_all
from tests.server.node_process import NodeProcess
from tests.server.sasl_node import MECHANISMS, PASSWORD, USER, login, sasl_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Larger than a record of TLS.
VALUES = [bytes([n]) * 50_000 for n in range(10)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("sasl-ssl")
    with sasl_node(folder, certificates=certificates) as started:
        with Client(started.address, timeout_s=LIMIT_S, security=of(certificates)) as client:
            client.create_topic(TOPIC, partitions=1)
        yield started


def of(certificates: Certificates, *arguments: str) -> dict[str, str]:
    """The properties of a client that logs in."""
    return {
        **login(*arguments),
        **certificates.properties(),
        "security.protocol": "SASL_SSL",
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_and_our_client_log_in(
    node: NodeProcess, certificates: Certificates, mechanism: str
) -> None:
    settings = {
        **certificates.librdkafka(),
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    produce_all(node.address, VALUES, **settings)
    assert consume(node.address, len(VALUES), **settings) == VALUES
    security = of(certificates, mechanism)
    with (
        Client(node.address, timeout_s=LIMIT_S, security=security) as client,
        client.consume(TOPIC, start="beginning", until_end=True) as records,
    ):
        assert [each.value for each in records][: len(VALUES)] == VALUES


def test_aiokafka_logs_in(node: NodeProcess, certificates: Certificates) -> None:
    async def work() -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.address,
            security_protocol="SASL_SSL",
            ssl_context=certificates.context(),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        try:
            written = await producer.send_and_wait(TOPIC, VALUES[0], partition=0)
        finally:
            await producer.stop()
        return int(written.offset)

    assert asyncio.run(asyncio.wait_for(work(), LIMIT_S)) >= 0


def test_neither_tls_nor_the_login_alone_is_enough(
    node: NodeProcess, certificates: Certificates
) -> None:
    with (
        pytest.raises(AuthenticationError),
        Client(node.address, timeout_s=5, security=of(certificates, "PLAIN", "wrong")) as client,
    ):
        client.topics()
    for security in (certificates.properties("client"), login()):
        with (
            pytest.raises(ClientError),
            Client(node.address, timeout_s=2, security=security) as client,
        ):
            client.topics()
