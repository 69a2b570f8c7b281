"""Responses of a non-leader name the leader (KIP-951), and where logs diverge."""

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
from tests.node.test_requests import batch, fetch, found_in, produce, produce_result, values_in

if TYPE_CHECKING:
    from kraftlog.simulator.host import VirtualHost

OTHER = 2
EPOCH = 1  # of a leader that followed upon the first one


def led_elsewhere(leader: int = OTHER) -> VirtualHost:
    """`demo`, whose partition is led by another broker now, of which the image knows."""
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


def fetch_at(host: VirtualHost, version: int, offset: int = 0, **words: Any) -> FetchRequest:
    """As `fetch`, by the name or the id of the topic as the version has it."""
    topic_id = host.node.image.topic_ids["demo"] if version >= 13 else NULL_UUID
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **words)
    topic = FetchTopic(topic="demo", topic_id=topic_id, partitions=[part])
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])


#: A leader and its epoch; where brokers listen, and in which rack.
Hints = tuple[tuple[int, int], list[tuple[int, str, int, str | None]]]


def hints(answer: Any, outcome: Any) -> Hints:
    """Who leads in which epoch, and where brokers listen, as an answer has it."""
    leader = outcome.current_leader
    return (leader.leader_id, leader.leader_epoch), [
        (node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints
    ]


SILENCE: Hints = (-1, -1), []
HINT: Hints = (OTHER, EPOCH), [(OTHER, "elsewhere", 9999, "r2")]


@pytest.mark.parametrize(("version", "hint"), [(9, SILENCE), (10, HINT), (13, HINT)])
def test_produce_errors_name_the_leader(version: int, hint: Hints) -> None:
    """C157."""
    host = led_elsewhere()
    topic_id = host.node.image.topic_ids["demo"] if version >= 13 else NULL_UUID
    answer = FrameClient(host).ask(ApiKey.PRODUCE, version, produce(batch(b"a"), topic_id=topic_id))
    assert produce_result(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hints(answer, produce_result(answer)) == hint


@pytest.mark.parametrize(("version", "hint"), [(12, SILENCE), (15, SILENCE), (16, HINT)])
def test_fetch_errors_name_the_leader(version: int, hint: Hints) -> None:
    """C157: a follower serves consumers (KIP-392), but not those that know an older leader."""
    host = led_elsewhere()
    request = fetch_at(host, version, current_leader_epoch=EPOCH - 1)
    answer = FrameClient(host).ask(ApiKey.FETCH, version, request)
    assert found_in(answer).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert hints(answer, found_in(answer)) == hint


def test_a_fetch_of_an_old_epoch_gets_the_new_one() -> None:
    host = led_elsewhere(leader=1)
    request = fetch_at(host, 16, current_leader_epoch=EPOCH - 1)
    answer = FrameClient(host).ask(ApiKey.FETCH, 16, request)
    assert found_in(answer).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert hints(answer, found_in(answer)) == ((1, EPOCH), [(1, "127.0.0.1", 9092, None)])


def test_without_leader_no_endpoint_is_returned() -> None:
    host = led_elsewhere(leader=-1)
    topic_id = host.node.image.topic_ids["demo"]
    answer = FrameClient(host).ask(ApiKey.PRODUCE, 13, produce(batch(b"a"), topic_id=topic_id))
    assert hints(answer, produce_result(answer)) == ((-1, EPOCH), [])


# Where logs part ---------------------------------------------------------------------------------


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
def test_v6_a_last_fetched_epoch_gets_the_diverging_epoch(
    log_of_two_epochs: VirtualHost, offset: int, last_epoch: int, diverging: object
) -> None:
    """At once, with neither records nor an error: it has something to take back first."""
    request = fetch(offset, max_wait_ms=500, last_fetched_epoch=last_epoch)
    client = FrameClient(log_of_two_epochs)
    answer = client.ask(ApiKey.FETCH, 12, request)
    if diverging is None:
        answers = [answer] if answer is not None else []
        assert [found_in(it).diverging_epoch.epoch for it in answers] == [-1] * len(answers)
        assert len(answers) == (offset < 3), "there is something to read, or it waits"
        return
    found = found_in(answer)
    assert found.error_code == ErrorCode.NONE
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == diverging
    assert values_in(answer) == []


def test_an_unknown_last_fetched_epoch_is_out_of_range(
    log_of_two_epochs: VirtualHost,
) -> None:
    answer = FrameClient(log_of_two_epochs).ask(ApiKey.FETCH, 12, fetch(1, last_fetched_epoch=7))
    assert found_in(answer).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
