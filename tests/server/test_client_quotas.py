"""librdkafka over its quotas is throttled, and keeps its connection."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kraftlog.client.client import Client
from kraftlog.client.quotas import alter_quotas
from tests.server.clients import TOPIC, consume
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: With two windows of a second, one of them taken as complete, the first request is too much.
RATE, VALUE = 250_000.0, bytes(300_000)


@pytest.mark.parametrize(
    ("key", "limit"),
    [("producer_byte_rate", RATE), ("request_percentage", 1e-6)],
    ids=["bytes", "time"],
)
def test_librdkafka_is_throttled_and_not_disconnected(
    tmp_path: Path, key: str, limit: float
) -> None:
    with node_of_short_windows(tmp_path) as node:
        produce_over_the_quota(node, key, limit)


def set_quota(node: NodeProcess, kind: str, name: str | None, key: str, limit: float) -> None:
    with Client(node.address, timeout_s=LIMIT_S) as client:
        alter_quotas(client, ((kind, name),), {key: limit})


def produce_over_the_quota(node: NodeProcess, key: str, limit: float) -> None:
    set_quota(node, "client-id", "quick", key, limit)
    throttled: list[float] = []
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": node.address,
            "client.id": "quick",
            "error_cb": errors.append,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    for _ in range(2):  # the second one waits until the connection is read again
        producer.produce(TOPIC, VALUE)
        assert producer.flush(LIMIT_S) == 0
    assert max(throttled) > 0
    assert errors == []
    assert len(consume(node.address, 2)) == 2


def test_librdkafka_connects_although_its_connections_wait(tmp_path: Path) -> None:
    overrides = ("--override", "max.connection.creation.rate=1")
    with node_of_short_windows(tmp_path, *overrides) as node:
        produce_one(node)


def test_librdkafka_connects_after_its_connections_were_closed(tmp_path: Path) -> None:
    """Its address has used up its quota when it begins."""
    with node_of_short_windows(tmp_path) as node:
        set_quota(node, "ip", None, "connection_creation_rate", 2.0)
        address = (node.address.split(":")[0], int(node.address.split(":")[1]))
        earlier = [socket.create_connection(address, LIMIT_S) for _ in range(2)]
        produce_one(node)
        for sock in earlier:
            sock.close()


@contextmanager
def node_of_short_windows(tmp_path: Path, *overrides: str) -> Iterator[NodeProcess]:
    """With two windows of a second, of which one counts as complete."""
    errors = str(tmp_path / "errors.txt")
    windows = ("--override", "quota.window.num=2")
    node = NodeProcess(str(tmp_path / "data"), *windows, *overrides, errors=errors)
    try:
        yield node
    finally:
        node.kill_if_running()


def produce_one(node: NodeProcess) -> None:
    producer = Producer({"bootstrap.servers": node.address})
    producer.produce(TOPIC, b"a record")
    assert producer.flush(LIMIT_S) == 0
