"""librdkafka over its quotas is throttled, and keeps its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kraftlog.client.client import Client
from kraftlog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.server.clients import TOPIC, consume
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
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
    errors_of_node = str(tmp_path / "errors.txt")
    override = ("--override", "quota.window.num=2")
    node = NodeProcess(str(tmp_path / "data"), *override, errors=errors_of_node)
    try:
        produce_over_the_quota(node, key, limit)
    finally:
        node.kill_if_running()


def produce_over_the_quota(node: NodeProcess, key: str, limit: float) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="quick")],
        ops=[OpData(key=key, value=limit, remove=False)],
    )
    with Client(node.address, timeout_s=LIMIT_S) as client:
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        response: Any = client.request("AlterClientQuotas", None, request)
    assert [it.error_code for it in response.entries] == [0]
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
