"""A node throttles clients whose requests take more than their percentage of its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.wire.apis import BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.node.frame_client import FrameClient, create_topics, make_host
from tests.node.test_client_quotas import alter
from tests.node.test_requests import batch, fetch, produce

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message
    from tests.virtual_host import VirtualHost

KEY = "request_percentage"
#: Each reading of the stopwatch is so much later than the one before.
TICK_MS = 10
#: A request is measured until its response, and then while that is encoded.
READINGS_MS = 2 * TICK_MS
#: One percent of the ten windows that count as complete.
BURST_MS = 100


def ticking_host(percent: float | None = 1, **topics: int) -> VirtualHost:
    host = make_host()
    if topics:
        create_topics(host, topics)
    readings = [0]

    def stopwatch_ns() -> int:
        readings[0] += TICK_MS * 1_000_000
        return readings[0]

    host.node.client_quotas._stopwatch_ns = stopwatch_ns
    if percent is not None:
        alter(host, KEY, percent, client_id="slow")
    return host


def slow_client(host: VirtualHost, listener: int = BROKER) -> FrameClient:
    client = FrameClient(host, listener)
    client.client_id = "slow"
    return client


def spent_ms(host: VirtualHost, client_id: str = "slow") -> float:
    """What is counted for the client, of the last eleven seconds."""
    found = host.node.client_quotas._time.usages.of(
        host.node.image.quotas, ("ANONYMOUS", client_id), host.now.monotonic_ms
    )
    assert found is not None
    total: float = sum(sample.total for sample in found[1].used._samples)
    return total * TICK_MS


def ask_until_throttled(client: FrameClient, api_key: int, version: int, request: Message) -> Any:
    """The first response with a throttle time, and how many there were without."""
    for number in range(100):
        response = client.ask(api_key, version, request)
        if response.throttle_time_ms:
            return response, number
    raise AssertionError("never throttled")


def test_a_client_over_its_percentage_waits_and_nobody_else_does() -> None:
    host = ticking_host()
    client, other = slow_client(host), FrameClient(host)
    request = MetadataRequest(topics=None)
    response, before = ask_until_throttled(client, ApiKey.METADATA, 12, request)
    assert before == BURST_MS // READINGS_MS
    assert response.throttle_time_ms == 1_000  # 10 ms too much are a second of one percent
    assert len(response.topics) == 1
    assert client.connection.mutes == 1
    for _ in range(20):
        assert other.ask(ApiKey.METADATA, 12, request).throttle_time_ms == 0
    assert client.ask(ApiKey.METADATA, 12, request) is None
    host.pass_time(999)
    assert client.take() == []
    host.pass_time(1)
    assert len(client.await_responses()) == 1


def test_produce_fetch_and_repeated_requests_count() -> None:
    host = ticking_host(percent=None)
    client = slow_client(host)
    for _ in range(3):  # these are learnt as templates before there is a quota
        client.ask(ApiKey.PRODUCE, 9, produce(batch(b"v"), 1))
        client.ask(ApiKey.FETCH, 12, fetch(0))
    alter(host, KEY, 1000, client_id="slow")
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"v"), 1)) is not None
    after_produce = spent_ms(host)
    assert after_produce > 0
    assert client.ask(ApiKey.FETCH, 12, fetch(0)) is not None
    assert spent_ms(host) > after_produce
    alter(host, KEY, 0.001, client_id="slow")
    response = client.ask(ApiKey.FETCH, 12, fetch(0))
    assert response.throttle_time_ms == 1_000
    assert len(response.responses) == 1  # unlike of bytes, it has its records


def test_waiting_costs_nothing() -> None:
    host = ticking_host(percent=1000)
    client = slow_client(host)
    client.send(ApiKey.FETCH, 12, fetch(0).replace(max_wait_ms=5_000, min_bytes=1))
    host.settle()
    assert client.take() == []
    host.stopwatch_ns += 10**12
    host.pass_time(5_000)
    assert len(client.await_responses()) == 1
    assert spent_ms(host) <= 2 * READINGS_MS


def test_requests_in_slices_count() -> None:
    host = ticking_host(percent=1000, **{f"t{number}": 100 for number in range(30)})
    host.node.sliced.limit(1)
    client = slow_client(host)
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    host.settle()
    assert len(client.take()) == 1
    assert spent_ms(host) > 10 * READINGS_MS


def test_acks_0_is_exempt_and_requests_between_nodes_are() -> None:
    host = ticking_host()
    client = slow_client(host)
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"v"), 0)) is None
    follower = fetch(0).replace(replica_id=2)
    for _ in range(20):
        assert client.ask(ApiKey.FETCH, 12, follower).throttle_time_ms == 0
    heartbeat = BrokerHeartbeatRequest(
        broker_id=9,
        broker_epoch=1,
        current_metadata_offset=0,
        want_fence=False,
        want_shut_down=False,
    )
    controller = slow_client(host, CONTROLLER)
    for _ in range(20):
        controller.send(ApiKey.BROKER_HEARTBEAT, 0, heartbeat)
        host.settle()
        ((_, response),) = controller.take()
        assert response.throttle_time_ms == 0
    assert not client.connection.mutes
    assert not controller.connection.mutes
    assert spent_ms(host) == 0


def test_a_cached_response_is_not_changed_for_others() -> None:
    host = ticking_host()
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    throttled, _ = ask_until_throttled(slow_client(host), ApiKey.API_VERSIONS, 3, request)
    assert throttled.throttle_time_ms > 0
    assert FrameClient(host).ask(ApiKey.API_VERSIONS, 3, request).throttle_time_ms == 0


def test_without_the_quota_nothing_is_measured_and_it_starts_anew() -> None:
    host = ticking_host()
    request = MetadataRequest(topics=None)
    _, before = ask_until_throttled(slow_client(host), ApiKey.METADATA, 12, request)
    alter(host, KEY, None, client_id="slow")
    assert not host.node.client_quotas.limits_time
    client = slow_client(host)
    for _ in range(20):
        assert client.ask(ApiKey.METADATA, 12, request).throttle_time_ms == 0
    alter(host, KEY, 1, client_id="slow")
    assert ask_until_throttled(slow_client(host), ApiKey.METADATA, 12, request)[1] == before
