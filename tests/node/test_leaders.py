"""Errors of a non-leader name the leader (KIP-951); a leader tells followers where logs diverge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_requests import (
    batch,
    fetch,
    fetched_partition,
    produce,
    produce_result,
    values_in,
)

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

OTHER = 2
#: The leader epoch of `OTHER`.
EPOCH = 1


def host_led_by_other(leader: int = OTHER) -> VirtualHost:
    """A node whose topic `demo` is led by another registered broker."""
    host = make_host()
    other = RegisterBrokerRecord(
        broker_id=OTHER,
        incarnation_id=b"\x02" * 16,
        broker_epoch=50,
        end_points=[
            BrokerEndpoint(name="PLAINTEXT", host="elsewhere", port=9999, security_protocol=0)
        ],
        features=(),
        rack="r2",
        fenced=False,
        log_dirs=(),
    )
    topic_id = host.node.image.topic_ids["demo"]
    change = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, replicas=(1, OTHER), isr=(OTHER,), leader=leader
    )
    host.node.replay([other, change], 100)
    return host


def fetch_at(host: VirtualHost, version: int, offset: int = 0, **fields: Any) -> FetchRequest:
    """A fetch of `demo`, by name or by topic id as the version requires."""
    topic_id = host.node.image.topic_ids["demo"] if version >= 13 else NULL_UUID
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **fields)
    topic = FetchTopic(topic="demo", topic_id=topic_id, partitions=[part])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])


#: A leader and its epoch; the id, host, port and rack of brokers.
Hints = tuple[tuple[int, int], list[tuple[int, str, int, str | None]]]


def hints(response: Any, partition: Any) -> Hints:
    """The leader of a partition of a response, its epoch, and the endpoints in the response."""
    leader = partition.current_leader
    return (leader.leader_id, leader.leader_epoch), [
        (node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
    ]


NO_HINT: Hints = (-1, -1), []
HINT: Hints = (OTHER, EPOCH), [(OTHER, "elsewhere", 9999, "r2")]


@pytest.mark.parametrize(("version", "hint"), [(9, NO_HINT), (10, HINT), (13, HINT)])
def test_produce_errors_name_the_leader(version: int, hint: Hints) -> None:
    """C157: the error response has the leader, its epoch and its endpoint."""
    host = host_led_by_other()
    topic_id = host.node.image.topic_ids["demo"] if version >= 13 else NULL_UUID
    response = FrameClient(host).ask(
        ApiKey.PRODUCE, version, produce(batch(b"a"), topic_id=topic_id)
    )
    assert produce_result(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hints(response, produce_result(response)) == hint


@pytest.mark.parametrize(("version", "hint"), [(12, NO_HINT), (15, NO_HINT), (16, HINT)])
def test_fetch_errors_name_the_leader(version: int, hint: Hints) -> None:
    """C157: a follower serves consumers (KIP-392), but not those that name an older epoch."""
    host = host_led_by_other()
    request = fetch_at(host, version, current_leader_epoch=EPOCH - 1)
    response = FrameClient(host).ask(ApiKey.FETCH, version, request)
    assert fetched_partition(response).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert hints(response, fetched_partition(response)) == hint


def test_a_fetch_of_an_old_epoch_gets_the_new_one() -> None:
    host = host_led_by_other(leader=1)
    request = fetch_at(host, 16, current_leader_epoch=EPOCH - 1)
    response = FrameClient(host).ask(ApiKey.FETCH, 16, request)
    assert fetched_partition(response).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert hints(response, fetched_partition(response)) == (
        (1, EPOCH),
        [(1, "127.0.0.1", 9092, None)],
    )


def test_without_leader_no_endpoint_is_returned() -> None:
    host = host_led_by_other(leader=-1)
    topic_id = host.node.image.topic_ids["demo"]
    response = FrameClient(host).ask(ApiKey.PRODUCE, 13, produce(batch(b"a"), topic_id=topic_id))
    assert hints(response, produce_result(response)) == ((-1, EPOCH), [])


# Where logs diverge ------------------------------------------------------------------------------


@pytest.fixture
def log_of_two_epochs() -> VirtualHost:
    """Offsets 0 and 1 are of epoch 0, offset 2 is of epoch 2."""
    host = make_host()
    client = FrameClient(host)
    topic_id = host.node.image.topic_ids["demo"]
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b"))) is not None
    for leader in (-1, 1):
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader)
        host.node.replay([change], 100)
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"c"))) is not None
    return host


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [(2, 0, None), (1, 0, None), (3, 2, None), (3, 0, (0, 2)), (3, 1, (0, 2)), (9, 2, (2, 3))],
)
def test_v6_a_diverging_last_fetched_epoch_gets_the_diverging_epoch(
    log_of_two_epochs: VirtualHost, offset: int, last_epoch: int, diverging: object
) -> None:
    """This response comes at once, without records or error, because the follower must truncate."""
    request = fetch(offset, max_wait_ms=500, last_fetched_epoch=last_epoch)
    client = FrameClient(log_of_two_epochs)
    response = client.ask(ApiKey.FETCH, 12, request)
    if diverging is None:
        assert (response is not None) == (offset < 3), "at the log end the fetch waits"
        if response is not None:
            assert fetched_partition(response).diverging_epoch.epoch == -1
        return
    partition = fetched_partition(response)
    assert partition.error_code == ErrorCode.NONE
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == diverging
    assert values_in(response) == []


def test_an_unknown_last_fetched_epoch_is_out_of_range(
    log_of_two_epochs: VirtualHost,
) -> None:
    response = FrameClient(log_of_two_epochs).ask(ApiKey.FETCH, 12, fetch(1, last_fetched_epoch=7))
    assert fetched_partition(response).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
