"""A fetch from many partitions is read a slice per turn, and costs little while it waits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch import large
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.node.frame_client import FrameClient, ask_settled, make_host
from tests.node.test_requests import batch
from tests.node.turn_cost import CALLS_OF_A_TURN, MAX_TURNS, Turns, count_calls

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

MANY = 600
SIZE = len(batch(b"x"))


def produce_request(*indexes: int) -> ProduceRequest:
    parts = [PartitionProduceData(index=index, records=batch(b"x")) for index in indexes]
    topics = [TopicProduceData(name="many", partition_data=parts)]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)


def produce(host: VirtualHost, *indexes: int) -> None:
    assert ask_settled(host, ApiKey.PRODUCE, 9, produce_request(*indexes)) is not None


def fetch(offset: int, count: int = MANY, **changes: Any) -> FetchRequest:
    """A fetch of `count` partitions, outside of sessions unless `changes` says otherwise."""
    parts = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    fields = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": FINAL_EPOCH} | changes
    return FetchRequest(topics=[FetchTopic(topic="many", partitions=parts)], **fields)


def sizes(answer: Any) -> dict[int, int]:
    """The bytes of records that a response has for each partition."""
    return {
        part.partition_index: len(part.records)
        for topic in answer.responses
        for part in topic.partitions
    }


def settle_and_take(client: FrameClient) -> Any:
    """Run the node until it is idle; return the response, or None."""
    client.host.settle()
    answers = client.take()
    return answers[-1][1] if answers else None


@pytest.mark.parametrize("max_bytes_read_at_once", [large.MAX_BYTES_READ_AT_ONCE, 0])
def test_a_record_in_each_of_many_partitions_is_read_in_slices(
    max_bytes_read_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "MAX_BYTES_READ_AT_ONCE", max_bytes_read_at_once)
    host = make_host(many=MANY)
    produce(host, *range(MANY))
    turns = Turns(host, ApiKey.FETCH, 12, fetch(0))
    assert sizes(turns.answer) == dict.fromkeys(range(MANY), SIZE)
    assert turns.others_answered > 5
    assert turns.longest < CALLS_OF_A_TURN
    handles = host.runner.directory.disk.handles
    assert handles.open_count <= handles.limit, "the fetch has released its files"


def test_a_waiting_large_fetch_reads_only_the_changed_partition() -> None:
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=5000, min_bytes=3 * SIZE))
    assert settle_and_take(client) is None
    for index in (7, 8):
        assert count_calls(partial(produce, host, index)) < 2 * MANY
    assert settle_and_take(client) is None
    produce(host, 9)
    received = sizes(settle_and_take(client))
    assert {index for index, size in received.items() if size} == {7, 8, 9}


def test_a_record_appended_between_slices_is_not_missed() -> None:
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=5000))
    assert host.node.sliced.has_work
    produce(host, 0)
    assert sizes(settle_and_take(client))[0] == SIZE


def test_a_large_fetch_completes_after_max_wait() -> None:
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500))
    assert settle_and_take(client) is None
    host.pass_time(500)
    assert set(sizes(settle_and_take(client)).values()) == {0}


@pytest.mark.parametrize("turns", [0, 100])
def test_a_large_fetch_is_released_when_the_connection_closes(turns: int) -> None:
    host = make_host(many=MANY)
    produce(host, *range(0, MANY, 2))
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=5000, min_bytes=1 << 20))
    for _ in range(turns):
        host.one_turn()
    assert host.node.sliced.has_work == (not turns)
    client.connection.responses[0].abandon()
    host.settle()
    assert not any(partition.fetches for partition in host.node.replica_manager.partitions.values())
    handles = host.runner.directory.disk.handles
    assert handles.open_count <= handles.limit


def test_a_topic_may_be_deleted_during_a_large_fetch() -> None:
    host = make_host(many=MANY)
    produce(host, *range(MANY))
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0))
    assert host.node.sliced.has_work
    deletion = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, deletion)
    answer = settle_and_take(client)
    codes = [part.error_code for part in answer.responses[0].partitions]
    assert (codes[0], codes[-1]) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert host.runner.directory.disk.failure is None


def test_a_session_of_many_partitions_returns_changes() -> None:
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, session_epoch=INITIAL_EPOCH))
    first = settle_and_take(client)
    assert len(sizes(first)) == MANY
    produce(host, 5)
    client.send(ApiKey.FETCH, 12, session_fetch(first.session_id, 1, max_wait_ms=0))
    assert sizes(settle_and_take(client)) == {5: SIZE}
    session = host.node.fetch_sessions.get(first.session_id)
    assert session is not None
    assert session.size == MANY


def produce_at_once(host: VirtualHost, *indexes: int) -> None:
    """Write a record to each partition, without running the node further."""
    parts = [PartitionProduceData(index=index, records=batch(b"x")) for index in indexes]
    topics = [TopicProduceData(name="many", partition_data=parts)]
    FrameClient(host).send(
        ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=9, topic_data=topics)
    )


def test_files_of_the_second_read_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records arrive between slices of the first read; the topic is deleted in the second."""
    monkeypatch.setattr(large, "MAX_BYTES_READ_AT_ONCE", 0)
    host = make_host(many=3 * MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, 3 * MANY, max_wait_ms=5000, min_bytes=2))
    pending: Any = client.connection.responses[0]
    first_read = pending.waiter
    produce_at_once(host, *range(100))
    while pending.waiter is first_read:
        host.one_turn()
    deletion = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, deletion)
    assert sizes(settle_and_take(client))[0] == SIZE


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_partitions_that_changed_meanwhile_are_read_in_slices(is_abandoned: bool) -> None:
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=5000, min_bytes=MANY * SIZE))
    pending: Any = client.connection.responses[0]
    produce_at_once(host, *range(1, MANY))
    while not host.node.replica_manager.partitions[
        host.node.image.topic_ids["many"], MANY - 1
    ].fetches:
        host.one_turn()
    assert host.node.sliced.has_work
    if is_abandoned:
        pending.abandon()
    host.settle()
    waiting = [
        bool(partition.fetches) for partition in host.node.replica_manager.partitions.values()
    ]
    assert waiting == [not is_abandoned] * len(waiting)
    pending.abandon()
    assert not any(partition.fetches for partition in host.node.replica_manager.partitions.values())


def test_v8_a_partition_not_led_at_arrival_gets_an_error_in_the_session() -> None:
    """The broker becomes its leader between the arrival of the fetch and the read.

    Without an error the follower would regard the partition as part of the session, and not name it
    in later requests.
    """
    host = make_host(many=MANY)
    late = host.node.replica_manager.by_log["many", 0]
    client, state = FrameClient(host), ReplicaState(replica_id=2, replica_epoch=-1)
    request = fetch(0, max_wait_ms=500, session_epoch=INITIAL_EPOCH, replica_state=state)
    topic_id = host.node.image.topic_ids["many"]
    for topic in request.topics:
        topic.topic_id = topic_id
    for index in range(MANY):
        record = PartitionChangeRecord(
            partition_id=index, topic_id=topic_id, replicas=(1, 2), isr=(1,)
        )
        host.node.replay([record], 100)
    late.begin_truncation()
    late.serve()
    client.send(ApiKey.FETCH, 17, request)
    host.one_turn()
    late.truncated(0, 0)
    host.node.replica_manager._serve(late)
    response = settle_and_take(client)
    codes = {it.partition_index: it.error_code for it in response.responses[0].partitions}
    assert codes.pop(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert set(codes.values()) == {ErrorCode.NONE}


def session_fetch(session_id: int, epoch: int, **changes: Any) -> FetchRequest:
    """The next request of a session: it names no partition."""
    fields = {"max_wait_ms": 5000, "min_bytes": 1} | changes
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=(), **fields)


@pytest.mark.parametrize("turns", [0, 100])
def test_v24_a_large_fetch_ends_with_its_session(turns: int) -> None:
    """The session ends while the fetch is read in slices, or while it waits."""
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, session_epoch=INITIAL_EPOCH))
    session_id = settle_and_take(client).session_id
    in_session = {"session_id": session_id, "session_epoch": 1, "max_wait_ms": 5000}
    client.send(ApiKey.FETCH, 12, fetch(0, min_bytes=SIZE, **in_session))
    for _ in range(turns):
        host.one_turn()
    assert host.node.sliced.has_work == (not turns)
    host.node.fetch_sessions.drop(session_id)
    response = settle_and_take(client)
    assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)


def client_waiting_in_session(host: VirtualHost, **fields: Any) -> FrameClient:
    """A client whose fetch waits in a session of many partitions without new records."""
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, session_epoch=INITIAL_EPOCH))
    first = settle_and_take(client)
    client.send(ApiKey.FETCH, 12, session_fetch(first.session_id, 1, max_wait_ms=0))
    assert sizes(settle_and_take(client)) == {}
    client.send(ApiKey.FETCH, 12, session_fetch(first.session_id, 2, **fields))
    assert settle_and_take(client) is None
    return client


def slices_until_answered(host: VirtualHost, client: FrameClient) -> tuple[Any, list[int]]:
    """Run turns until there is a response; return it and the calls of each turn."""
    calls: list[int] = []
    while not (answers := client.take()):
        calls.append(count_calls(host.one_turn))
        assert len(calls) < MAX_TURNS
        host.deliver()
    return answers[-1][1], calls


@pytest.mark.parametrize("expires", [False, True])
def test_v13_new_records_of_many_partitions_are_read_in_slices(expires: bool) -> None:
    """V13: a waiting fetch whose partitions all changed in one turn does not hold the loop."""
    host = make_host(many=MANY)
    client = client_waiting_in_session(host, min_bytes=1 << 20 if expires else 1)
    FrameClient(host).send(ApiKey.PRODUCE, 9, produce_request(*range(MANY)))
    if expires:
        assert settle_and_take(client) is None
        host.pass_time(5000)
    else:
        host.one_turn()
    answer, calls = slices_until_answered(host, client)
    assert sizes(answer) == dict.fromkeys(range(MANY), SIZE)
    assert len(calls) > 5
    assert max(calls) < sum(calls) / 3


def test_v13_large_fetch_that_still_waits_is_read_in_slices_again() -> None:
    """V13: new records of many partitions are first too few for min_bytes, then enough."""
    host = make_host(many=MANY)
    client = client_waiting_in_session(host, min_bytes=2 * MANY * SIZE)
    for _ in range(2):
        assert settle_and_take(client) is None
        produce(host, *range(MANY))
    assert sizes(settle_and_take(client)) == dict.fromkeys(range(MANY), 2 * SIZE)


def test_v13_records_of_another_partition_between_slices_are_not_missed() -> None:
    """V13: records of a partition that had none when the read began complete the fetch, too."""
    host = make_host(many=MANY)
    client = FrameClient(host)
    client.send(ApiKey.FETCH, 12, fetch(0, session_epoch=INITIAL_EPOCH))
    session_id = settle_and_take(client).session_id
    client.send(ApiKey.FETCH, 12, session_fetch(session_id, 1, max_wait_ms=0))
    assert sizes(settle_and_take(client)) == {}
    in_session = {"session_id": session_id, "session_epoch": 2, "max_wait_ms": 5000}
    client.send(ApiKey.FETCH, 12, fetch(0, MANY - 1, **in_session))
    assert host.node.sliced.has_work
    produce(host, MANY - 1)
    assert sizes(settle_and_take(client))[MANY - 1] == SIZE
