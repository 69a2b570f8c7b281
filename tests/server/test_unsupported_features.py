"""Unsupported features fail at once with a message, and clients do not retry.

With a retriable error code, each client would wait for its own timeout of half a minute or more,
and then report something else.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.server.clients import KAFKA_TOOLS, LEAVES_SOCKETS
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.driver import Driver

MESSAGE = "transactions are not supported by this broker"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all tests, because they leave no state."""
    folder = tmp_path_factory.mktemp("unsupported")
    started = NodeProcess(str(folder / "data"), errors=str(folder / "errors.txt"))
    try:
        yield started
    finally:
        started.kill_if_running()


def test_librdkafka_fails_at_once_with_transactions(node: NodeProcess) -> None:
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": "t"})
    with pytest.raises(KafkaException, match=MESSAGE) as refused:
        producer.init_transactions(LIMIT_S)
    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()


@LEAVES_SOCKETS
def test_kafka_python_fails_at_once_with_transactions(node: NodeProcess) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=node.address, transactional_id="t")
    try:
        with pytest.raises(kafka.errors.KafkaError, match="UnsupportedVersionError"):
            producer.init_transactions()
    finally:
        producer.close(LIMIT_S)
        gc.collect()  # while the warning of LEAVES_SOCKETS is ignored


def test_aiokafka_fails_at_once_with_transactions(node: NodeProcess) -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=node.address, transactional_id="t")
        try:
            with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(work(), LIMIT_S))


def test_kafkas_producer_fails_at_once_with_transactions(node: NodeProcess, jvm: Driver) -> None:
    done = jvm.tool(
        KAFKA_TOOLS + "ProducerPerformance",
        *("--bootstrap-server", node.address, "--topic", "demo", "--throughput", "-1"),
        *("--num-records", "1", "--record-size", "1"),
        *("--transactional-id", "t", "--transaction-duration-ms", "1000"),
    )
    assert done.exit_code == 1
    assert MESSAGE in done.stderr


@pytest.mark.parametrize(
    ("tool", "words", "api"),
    [
        (f"{KAFKA_TOOLS}TransactionsCommand", ("list",), "LIST_TRANSACTIONS"),
        (
            f"{KAFKA_TOOLS}consumer.group.ShareGroupCommand",
            ("--describe", "--group", "g"),
            "SHARE_GROUP_DESCRIBE",
        ),
    ],
)
def test_kafkas_tools_report_unsupported_features(
    node: NodeProcess, jvm: Driver, tool: str, words: tuple[str, ...], api: str
) -> None:
    done = jvm.tool(tool, "--bootstrap-server", node.address, *words)
    assert not done.timed_out
    assert f"The node does not support {api}" in done.stdout + done.stderr
