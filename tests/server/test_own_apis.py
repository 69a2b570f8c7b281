"""Clients ignore advertised APIs with unknown numbers: kraftlog's own, far above Kafka's.

If a client failed, kraftlog could not advertise its own APIs.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.messages.api_versions import ApiVersionsResponse
from tests.interop.driver import LONG_TIMEOUTS
from tests.server import clients
from tests.server.node_process import NodeProcess
from tests.server.raw import api_versions
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

#: The APIs of brokers; ReadOffset is only for controller listeners.
OWN = {ApiKey.DISCOVER_BROKERS, ApiKey.REMOVE_PARTITIONS}
VALUES = [b"value %d" % n for n in range(100)]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a node that advertises kraftlog's own APIs."""
    errors = str(tmp_path / "errors.txt")
    node = NodeProcess(str(tmp_path / "data"), errors=errors, module="tests.server.with_own_apis")
    try:
        yield node.address
        assert node.stop() == 0
    finally:
        node.kill_if_running()


def test_own_apis_are_advertised(address: str) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT_S) as sock:
        sock.sendall(api_versions(7))
        with sock.makefile("rb") as stream:
            size, _ = struct.unpack(">ii", stream.read(8))
            body = stream.read(size - 4)
    keys = {key.api_key for key in decode(ApiVersionsResponse, 0, body).api_keys}
    assert keys > OWN


def test_confluent_kafka_ignores_unknown_apis(address: str) -> None:
    clients.produce_all(address, VALUES)
    assert clients.consume(address, len(VALUES)) == VALUES
    assert clients.list_topics(address)["demo"] == 1


def test_kcat_ignores_unknown_apis(address: str, kcat: str) -> None:
    assert 'topic "demo" with 1 partitions' in clients.run_kcat(kcat, address, "-L")
    clients.run_kcat(kcat, address, "-P", "-t", "demo", stdin=b"one\ntwo\n")
    assert clients.run_kcat(kcat, address, "-C", "-t", "demo", "-e", "-q") == "one\ntwo\n"


@clients.LEAVES_SOCKETS
def test_kafka_python_ignores_unknown_apis(address: str) -> None:
    clients.kafka_python_produce(address, VALUES)
    assert clients.kafka_python_consume(address, len(VALUES)) == VALUES


def test_aiokafka_ignores_unknown_apis(address: str) -> None:
    clients.aiokafka_produce(address, VALUES)
    assert clients.aiokafka_consume(address, len(VALUES)) == VALUES


def test_kafkas_tools_ignore_unknown_apis(address: str, jvm: Driver) -> None:
    words = ("--bootstrap-server", address, "--command-config", LONG_TIMEOUTS)
    shown = jvm.tool(clients.KAFKA_TOOLS + "BrokerApiVersionsCommand", *words).ok().stdout
    assert all(f"UNKNOWN({key}): 0" in shown for key in OWN)
    clients.java_produce(jvm, address, VALUES)
    assert clients.java_consume(jvm, address, len(VALUES)) == VALUES
    assert clients.java_offset(jvm, address, "-1") == f"demo:0:{len(VALUES)}"
