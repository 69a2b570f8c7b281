"""A node throttles clients over their quota, in simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.node.frame_client import FrameClient, ask_settled, make_host
from tests.node.test_requests import batch, fetch, produce, values_in

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
RATE = 1_000
#: Ten of the eleven windows of a second count as complete from the start.
BURST = 10 * RATE


def alter_request(key: str, value: float | None, **entity: str | None) -> AlterClientQuotasRequest:
    parts = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in entity.items()
    ]
    change = OpData(key=key, value=value or 0.0, remove=value is None)
    return AlterClientQuotasRequest(
        entries=[EntryData(entity=parts, ops=[change])], validate_only=False
    )


def alter(host: VirtualHost, key: str, value: float | None, **entity: str | None) -> None:
    request = alter_request(key, value, **entity)
    (result,) = ask_settled(host, ApiKey.ALTER_CLIENT_QUOTAS, 1, request).entries
    assert result.error_code == ErrorCode.NONE


def write(client: FrameClient, size: int, acks: int = 1) -> Any:
    return client.ask(ApiKey.PRODUCE, 9, produce(batch(bytes(size)), acks))


def test_a_producer_over_its_quota_waits_and_nobody_else_does() -> None:
    host = make_host()
    alter(host, PRODUCER, RATE, client_id="test")
    client, other = FrameClient(host), FrameClient(host)
    other.client_id = "other"
    throttle_ms = write(client, 2 * BURST).throttle_time_ms
    assert throttle_ms == pytest.approx(BURST, rel=0.05)
    assert write(client, 1) is None  # it is not read
    assert write(other, 2 * BURST).throttle_time_ms == 0
    host.pass_time(throttle_ms - 1)
    assert client.take() == []
    host.pass_time(1)
    assert len(client.await_responses()) == 1


def test_a_producer_writes_its_rate_over_minutes() -> None:
    """Whoever sends as soon as he is read again gets the rate, once the first burst is over."""
    host = make_host()
    alter(host, PRODUCER, RATE, user=None)
    client, start_ms, written = FrameClient(host), host.now.monotonic_ms, 0
    while host.now.monotonic_ms - start_ms < 120_000:
        response = write(client, 500)
        written += 500
        host.pass_time(max(1, response.throttle_time_ms))
    assert 0.8 * 120 * RATE < written < 1.05 * (120 * RATE + BURST)


def test_acks_0_and_repeated_requests_count() -> None:
    host = make_host()
    client = FrameClient(host)
    for _ in range(3):  # these are learnt as a template before there is a quota
        assert write(client, BURST).throttle_time_ms == 0
    alter(host, PRODUCER, RATE, user="ANONYMOUS")
    assert write(client, BURST // 2).throttle_time_ms == 0
    assert write(client, BURST, acks=0) is None
    assert client.connection.mutes == 1


def test_a_changed_quota_applies_at_once() -> None:
    host = make_host()
    alter(host, PRODUCER, RATE, user="ANONYMOUS")
    client = FrameClient(host)
    write(client, BURST // 2)
    alter(host, PRODUCER, 10 * RATE, user="ANONYMOUS")
    assert write(client, BURST).throttle_time_ms == 0
    alter(host, PRODUCER, None, user="ANONYMOUS")
    assert write(client, 20 * BURST).throttle_time_ms == 0
    assert not host.node.client_quotas.is_active


def test_a_fetch_over_the_quota_is_answered_without_records() -> None:
    host = make_host()
    client = FrameClient(host)
    for _ in range(3):
        write(client, BURST // 2)
    alter(host, CONSUMER, RATE, client_id=None)
    first = client.ask(ApiKey.FETCH, 12, fetch(0))
    assert first.throttle_time_ms == 0
    assert len(values_in(first)) == 1  # the request is bounded by what the quota allows at all
    second = client.ask(ApiKey.FETCH, 12, fetch(1))
    assert (second.error_code, list(second.responses)) == (ErrorCode.NONE, [])
    assert second.throttle_time_ms > 0
    assert client.connection.mutes == 1
    host.pass_time(BURST + 2_000)  # until the first response is out of the windows
    third = client.ask(ApiKey.FETCH, 12, fetch(1))
    assert (third.throttle_time_ms, len(values_in(third))) == (0, 1)


def test_a_throttled_session_goes_on() -> None:
    """Its next response has the records that the throttled one would have had."""
    host = make_host()
    client = FrameClient(host)
    opened = client.ask(ApiKey.FETCH, 12, fetch(0).replace(session_epoch=0))
    alter(host, CONSUMER, RATE, client_id=None)
    write(client, BURST // 2)
    write(client, BURST // 2)

    def go_on(epoch: int, *offsets: int) -> Any:
        parts = [
            FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            for offset in offsets
        ]
        topics = [FetchTopic(topic="demo", partitions=parts)] if parts else []
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=opened.session_id,
            session_epoch=epoch,
            topics=topics,
        )
        return client.ask(ApiKey.FETCH, 12, request)

    assert len(values_in(go_on(1))) == 1
    throttled = go_on(2, 1)
    assert (throttled.session_id, list(throttled.responses)) == (opened.session_id, [])
    host.pass_time(BURST + 2_000)
    assert len(values_in(go_on(3))) == 1


def test_followers_are_exempt() -> None:
    host = make_host()
    write(FrameClient(host), 2 * BURST)
    alter(host, CONSUMER, 1, client_id=None)
    client = FrameClient(host)
    response = client.ask(ApiKey.FETCH, 12, fetch(0).replace(replica_id=2))
    assert response.throttle_time_ms == 0
    assert not client.connection.mutes


def test_quotas_are_set_on_controllers_too() -> None:
    host = make_host()
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="u")],
        ops=[OpData(key=PRODUCER, value=1.0, remove=False)],
    )
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    client.send(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    host.settle()
    ((_, response),) = client.take()
    assert [it.error_code for it in response.entries] == [ErrorCode.NONE]
    assert host.node.image.quotas == {(("user", "u"),): {PRODUCER: 1.0}}
