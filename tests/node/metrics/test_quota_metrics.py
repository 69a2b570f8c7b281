"""Metrics of quotas: a bounded number of series, with Kafka's labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.node.metrics import quota_metrics, registry
from kraftlog.wire.apis import ApiKey
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_client_quotas import BURST, CONSUMER, PRODUCER, RATE, alter, write
from tests.node.test_mutation_quotas import create
from tests.node.test_requests import fetch

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost


def series(host: VirtualHost, name: str) -> dict[tuple[str, str], float]:
    """The values of a family by user and client id."""
    (family,) = [it for it in registry.families_of(host.node) if it.name == f"kafka_server_{name}"]
    return {
        (dict(labels)["user"], dict(labels)["client_id"]): value
        for labels, value in family.measure(host.node, host.now)
    }


def test_rates_and_throttle_times_of_bytes() -> None:
    host = make_host()
    assert series(host, "produce_byte_rate") == {}
    alter(host, PRODUCER, RATE, user=None, client_id=None)
    client = FrameClient(host)
    throttle_ms = write(client, 2 * BURST).throttle_time_ms
    labels = ("ANONYMOUS", "test")
    assert series(host, "produce_byte_rate")[labels] == pytest.approx(2 * RATE, rel=0.05)
    assert series(host, "produce_throttle_time") == {labels: throttle_ms}
    host.pass_time(60_000)
    assert series(host, "produce_throttle_time") == {labels: 0}
    assert series(host, "produce_byte_rate") == {labels: 0}
    alter(host, PRODUCER, None, user=None, client_id=None)
    assert series(host, "produce_byte_rate") == {}


def test_fetched_bytes_that_were_throttled_do_not_count() -> None:
    host = make_host()
    client = FrameClient(host)
    for _ in range(2):
        write(client, BURST // 2)
    alter(host, CONSUMER, RATE, client_id="test")
    client.ask(ApiKey.FETCH, 12, fetch(0))
    before = series(host, "fetch_byte_rate")[("", "test")]
    assert 0 < before <= RATE
    throttled = client.ask(ApiKey.FETCH, 12, fetch(1))
    assert series(host, "fetch_byte_rate") == {("", "test"): before}
    assert series(host, "fetch_throttle_time") == {("", "test"): throttled.throttle_time_ms}


def test_tokens_and_time() -> None:
    host = make_host()
    alter(host, "controller_mutation_rate", 1, user="ANONYMOUS")
    alter(host, "request_percentage", 50, user="ANONYMOUS")
    create(FrameClient(host), a=15)
    response = create(FrameClient(host), b=1)
    assert series(host, "controllermutation_tokens") == {("ANONYMOUS", ""): -4}
    throttle_ms = {("ANONYMOUS", ""): response.throttle_time_ms}
    assert series(host, "controllermutation_throttle_time") == throttle_ms
    assert series(host, "request_request_time") == {("ANONYMOUS", ""): 0}


def test_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_metrics, "MAX_SERIES", 3)
    host = make_host()
    alter(host, PRODUCER, RATE, client_id=None)
    for number in range(5):
        client = FrameClient(host)
        client.client_id = f"c{number}"
        write(client, 1)
    assert set(series(host, "produce_byte_rate")) == {("", f"c{number}") for number in range(3)}
