"""acks=all while an in-sync replica lacks the batch: the wait, its timeout, and the outcome.

The other replica is not simulated, so it never fetches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.replication.delayed_produce import DelayedProduce
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.node.frame_client import FrameClient, make_host, set_config
from tests.node.test_producers import idempotent_batch
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

TIMEOUT_MS = 1000  # of the requests that `produce` makes
TOPIC_RESOURCE = 2


def change(host: VirtualHost, index: int = 0, **fields: Any) -> None:
    """Change a partition of `demo` in the image."""
    topic_id = host.node.image.topic_ids["demo"]
    host.node.replay([PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)], 100)


@pytest.fixture
def host() -> VirtualHost:
    """`demo` has two in-sync replicas, and broker 2 does not exist; `other` has one."""
    host = make_host(demo=2, other=1)
    for index in (0, 1):
        change(host, index, replicas=(1, 2), isr=(1, 2))
    return host


def error_codes(client: FrameClient) -> list[int]:
    return [produce_result(response).error_code for _, response in client.take()]


def test_v7_acks_all_waits_for_replicas_until_its_timeout(host: VirtualHost) -> None:
    """C184: after the timeout the batch stays, and readers see it once it is committed."""
    client = FrameClient(host)
    assert (
        produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=1))).base_offset == 0
    )
    assert client.ask(ApiKey.PRODUCE, 9, produce(batch(b"b"), acks=-1)) is None
    host.pass_time(TIMEOUT_MS - 1)
    assert client.take() == []
    assert host.node.deadline() == TIMEOUT_MS
    host.pass_time(1)
    [(_, response)] = client.take()
    assert produce_result(response).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert produce_result(response).base_offset == 1
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == []
    change(host, isr=(1,))
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"a", b"b"]
    assert client.take() == [], "no second response"


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_acks_all_without_timeout_times_out_in_the_same_turn(
    host: VirtualHost, timeout_ms: int
) -> None:
    request = produce(batch(b"a"), acks=-1)
    request.timeout_ms = timeout_ms
    client = FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, request)
    host.turn()
    host.turn()
    assert error_codes(client) == [ErrorCode.REQUEST_TIMED_OUT]


def test_v7_acks_all_completes_when_the_lagging_replica_leaves_the_isr(host: VirtualHost) -> None:
    client, reader = FrameClient(host), FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=-1))
    host.turn()
    assert reader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500)) is None
    change(host, isr=(1,))
    assert error_codes(client) == [ErrorCode.NONE]
    [(_, response)] = reader.take()
    assert values_in(response) == [b"a"], "the waiting fetch gets a response too"
    host.pass_time(TIMEOUT_MS)
    assert error_codes(client) == []


def test_v7_an_isr_below_the_minimum_after_append_is_an_error(host: VirtualHost) -> None:
    set_config(host, TOPIC_RESOURCE, "demo", "min.insync.replicas", 2)
    client = FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=-1))
    host.turn()
    change(host, isr=(1,))
    assert error_codes(client) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_duplicate_batch_waits_like_the_first_one(host: VirtualHost) -> None:
    first, second = FrameClient(host), FrameClient(host)
    for client in (first, second):
        assert client.ask(ApiKey.PRODUCE, 9, produce(idempotent_batch(0), acks=-1)) is None
    leader_only = FrameClient(host)
    assert (
        produce_result(
            leader_only.ask(ApiKey.PRODUCE, 9, produce(idempotent_batch(0), acks=1))
        ).base_offset
        == 0
    )
    change(host, isr=(1,))
    assert (error_codes(first), error_codes(second)) == ([0], [0])


def test_v7_batches_below_the_high_watermark_are_taken_in_order(host: VirtualHost) -> None:
    """A duplicate waits for the offset of its original, below the batches appended in between."""
    partition = host.node.replica_manager.by_log["demo", 0]
    pending: Any = None
    for name, offset in (("a", 1), ("b", 3), ("c", 5), ("duplicate of a", 1), ("d", 6)):
        DelayedProduce(partition, offset, pending, name)
    taken = []
    for high_watermark in (0, 1, 4, 5):
        partition.high_watermark = high_watermark
        replicated = partition.take_replicated()
        assert all(delayed.done for delayed in replicated)
        taken.append([delayed.result for delayed in replicated])
    assert taken == [[], ["a", "duplicate of a"], ["b"], ["c"]]
    assert [(delayed.result, delayed.done) for delayed in partition.awaiting_isr] == [("d", False)]
    assert [delayed.result for delayed in partition.take_unreplicated()] == ["d"]


def test_a_response_has_the_outcome_of_each_partition(host: VirtualHost) -> None:
    """The timeout of one partition does not change the result of another."""
    part = PartitionProduceData(index=0, records=batch(b"a"))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(name=name, partition_data=[part]) for name in ("demo", "other")
        ],
    )
    client = FrameClient(host)
    assert client.ask(ApiKey.PRODUCE, 9, request) is None
    host.pass_time(TIMEOUT_MS)
    [(_, response)] = client.take()
    outcome = [topic.partition_responses[0].error_code for topic in response.responses]
    assert outcome == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("change_of_partition", "code"),
    [
        ({"leader": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["another leader", "the topic is deleted"],
)
def test_waiting_requests_fail_when_the_partition_is_lost(
    host: VirtualHost, change_of_partition: dict[str, int] | None, code: int
) -> None:
    client = FrameClient(host)
    client.send(ApiKey.PRODUCE, 9, produce(batch(b"a"), acks=-1))
    host.turn()
    if change_of_partition is None:
        topic_id = host.node.image.topic_ids["demo"]
        host.node.replay([RemoveTopicRecord(topic_id=topic_id)], 100)
    else:
        change(host, **change_of_partition)
    assert error_codes(client) == [code]
    host.pass_time(TIMEOUT_MS)
    assert error_codes(client) == []
