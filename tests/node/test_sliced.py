"""Long requests take a slice per turn, and other requests are served in between."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.keys import TOPIC
from kraftlog.errors import ErrorCode, InternalError
from kraftlog.node.pending_response import FEW_ITEMS, PendingResponse, items_of
from kraftlog.node.sliced import GIANT_FRAME_BYTES, SlicedRequests, kept_body
from kraftlog.node.slices import SLICE_BUDGET, TURN_BUDGET
from kraftlog.records.builder import BatchBuilder
from kraftlog.steps import drained
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kraftlog.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord, RemoveTopicRecord
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.turn_cost import CALLS_OF_A_TURN, Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message


def batch_of(count: int) -> bytes:
    """Records a millisecond apart, from 1000 on."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1000 + number, None, b"value")
    return builder.build()


def produce_to(topic: str, index: int, batch: bytes) -> ProduceRequest:
    part = PartitionProduceData(index=index, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[part])]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)


def steps(count: int, cost: int, done: list[int], client: int = 0) -> Iterator[int]:
    """Steps of this cost, each of which adds its client to `done`."""
    for _ in range(count):
        done.append(client)
        yield cost


def new_sliced() -> SlicedRequests:
    """The sliced requests of a node without other work."""
    idle = SimpleNamespace(steps=0)
    node: Any = SimpleNamespace(
        needs_poll=False, quorum=idle, active_controller=idle, group_coordinators=None
    )
    return SlicedRequests(node)


def new_response() -> PendingResponse:
    pending = PendingResponse(VirtualConnection())
    pending.api = APIS[ApiKey.METADATA]
    return pending


def test_small_work_completes_in_its_turn() -> None:
    sliced, done = new_sliced(), list[int]()
    pending = new_response()
    sliced.run(pending, steps(10, 10, done))
    assert len(done) == 10
    assert not sliced.has_work
    assert not pending.connection.mutes


def test_a_turn_spends_its_budget_and_no_more() -> None:
    sliced, done = new_sliced(), list[int]()
    pending = new_response()
    sliced.run(pending, steps(10_000, 10, done))
    assert len(done) == TURN_BUDGET // 10
    sliced.finish_turn()
    assert len(done) == TURN_BUDGET // 10 + 1, "each turn runs at least one step"
    assert pending.connection.mutes
    sliced.finish_turn()
    assert len(done) == 2 * TURN_BUDGET // 10 + 1


def test_connection_is_held_until_all_its_sliced_requests_are_done() -> None:
    sliced, done = new_sliced(), list[int]()
    first, second = new_response(), new_response()
    second.connection = first.connection
    sliced.run(first, steps(2, TURN_BUDGET, done))
    sliced.run(second, steps(20, TURN_BUDGET, done))
    while first.waiter is not None:
        sliced.finish_turn()
    assert second.waiter is not None
    assert first.connection.mutes
    for _ in range(30):
        sliced.finish_turn()
    assert not first.connection.mutes


def test_connection_is_held_when_a_sliced_request_begins_another() -> None:
    sliced, done = new_sliced(), list[int]()
    pending = new_response()

    def run_another() -> Iterator[int]:
        yield TURN_BUDGET
        yield TURN_BUDGET
        sliced.run(pending, steps(20, TURN_BUDGET, done))

    sliced.run(pending, run_another())
    while not done:
        sliced.finish_turn()
    sliced.finish_turn()
    assert sliced.has_work
    assert pending.connection.mutes
    for _ in range(30):
        sliced.finish_turn()
    assert not pending.connection.mutes


def test_requests_rotate_with_equal_shares_of_a_turn() -> None:
    sliced, done = new_sliced(), list[int]()
    for client in (1, 2, 3):
        sliced.run(new_response(), steps(10_000, 10, done, client))
    sliced.finish_turn()
    done.clear()
    sliced.finish_turn()
    share = SLICE_BUDGET // 10
    assert done == [2] * share + [3] * share + [1] * share + [2] * share


def test_a_request_is_dropped_when_its_connection_is_gone() -> None:
    sliced, done = new_sliced(), list[int]()
    pending = new_response()
    sliced.run(pending, steps(10_000, 10, done))
    done.clear()
    pending.abandon()
    sliced.finish_turn()
    assert not done
    assert not sliced.has_work


def test_a_dropped_request_releases_its_resources_at_once() -> None:
    ended: list[str] = []

    def holding() -> Iterator[int]:
        try:
            while True:
                yield TURN_BUDGET
        finally:
            ended.append("released")

    sliced = new_sliced()
    pending = new_response()
    sliced.run(pending, holding())
    gc.disable()
    try:
        pending.abandon()
        sliced.finish_turn()
    finally:
        gc.enable()
    assert ended == ["released"]


def test_an_exception_in_a_later_slice_closes_the_connection() -> None:
    def failing() -> Iterator[int]:
        yield TURN_BUDGET
        raise ValueError("a mistake")

    sliced = new_sliced()
    pending = new_response()
    sliced.run(pending, failing())
    with pytest.raises(InternalError, match="serving Metadata"):
        sliced.finish_turn()  # a virtual connection raises the error that would close it


def test_items_are_freed_as_they_are_taken() -> None:
    class Item:
        alive = 0

        def __init__(self) -> None:
            Item.alive += 1

        def __del__(self) -> None:
            Item.alive -= 1

    taken: Any = drained(tuple(Item() for _ in range(10)))
    next(taken)
    next(taken)
    assert Item.alive == 8


def test_a_list_is_emptied_as_its_items_are_taken() -> None:
    items = [1, 2, 3]
    assert (next(drained(items)), items) == (1, [3, 2])


def test_a_giant_frame_is_not_copied() -> None:
    small, giant = bytearray(100), bytearray(GIANT_FRAME_BYTES + 9)
    body, pos = kept_body(small, 8, 100)
    assert (type(body), len(body), pos) == (bytes, 92, 0)
    giant_body, pos = kept_body(giant, 8, len(giant))
    assert (giant_body is giant, pos) == (True, 8)
    shared, _ = kept_body(giant, 4, len(giant) - 1)
    assert shared is not giant, "the buffer has bytes of another frame"


def test_a_response_of_many_items_is_encoded_and_freed_in_steps() -> None:
    pending = new_response()
    pending.version = 12
    topics = [
        MetadataResponseTopic(error_code=3, name=f"unknown-{number}", partitions=())
        for number in range(2_500)
    ]
    response = MetadataResponse(brokers=(), topics=topics)
    encoded = encode(response, 12)
    for _ in pending.respond_in_steps(response, len(topics)):
        pass
    assert topics == []
    assert pending.pieces is not None
    assert len(pending.pieces) >= 3
    assert b"".join(pending.pieces)[9:] == encoded


def test_items_of_a_response_are_counted_up_to_the_limit() -> None:
    def results(*counts: int) -> ElectLeadersResponse:
        topics = [
            ReplicaElectionResult(
                topic="t", partition_result=[PartitionResult(partition_id=0, error_code=0)] * count
            )
            for count in counts
        ]
        return ElectLeadersResponse(error_code=0, replica_election_results=topics)

    assert items_of(results()) == 0
    assert items_of(results(1, 2)) == 5
    assert items_of(results(FEW_ITEMS)) == FEW_ITEMS + 1
    assert items_of(results(10 * FEW_ITEMS, 1)) == FEW_ITEMS + 1


def test_requests_of_one_client_keep_their_order() -> None:
    host = make_host(demo=1)
    client = FrameClient(host)
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(20_000)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    client.send(ApiKey.METADATA, 12, request)
    client.send(ApiKey.METADATA, 12, MetadataRequest(topics=()))
    host.one_turn()
    assert len(client.connection.responses) == 1, "the second request waits"
    host.settle()
    assert [number for number, _ in client.take()] == [1, 2]


def test_metadata_of_very_many_names_leaves_room_for_others() -> None:
    host = make_host(demo=1)
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(30_000)]
    for may_create in (False, True):
        request = MetadataRequest(topics=names, allow_auto_topic_creation=may_create)
        turns = Turns(host, ApiKey.METADATA, 12, request)
        assert len(turns.answer.topics) == 30_000
        assert [topic.name for topic in turns.answer.topics[:2]] == ["unknown-0", "unknown-1"]
        assert turns.others_answered > 20
        assert turns.longest < CALLS_OF_A_TURN


def test_metadata_of_a_topic_of_many_partitions_leaves_room_for_others() -> None:
    host = make_host(many=5_000)
    turns = Turns(host, ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert len(turns.answer.topics[0].partitions) == 5_000
    assert turns.others_answered >= 3
    assert turns.longest < CALLS_OF_A_TURN


def metadata_during(*changes: Message) -> tuple[int, int]:
    """Error code and partition count of `many` in Metadata, if the topic changes meanwhile."""
    host = make_host(many=5_000)
    client = FrameClient(host)
    names = [MetadataRequestTopic(name="many")]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    client.send(ApiKey.METADATA, 12, request)
    host.one_turn()
    topic_id = host.node.image.topic_ids["many"]
    host.node.replay([change.replace(topic_id=topic_id) for change in changes], 0)
    assert not client.take()
    host.settle()
    [(_, response)] = client.take()
    return response.topics[0].error_code, len(response.topics[0].partitions)


def test_metadata_of_a_topic_deleted_meanwhile_is_not_partial() -> None:
    result = metadata_during(RemoveTopicRecord(topic_id=b""))
    assert result == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_metadata_of_a_topic_that_shrinks_meanwhile_is_current() -> None:
    removed = [
        PartitionChangeRecord(partition_id=index, topic_id=b"", removed=True)
        for index in range(10, 5_000)
    ]
    assert metadata_during(*removed) == (0, 10)


def list_offsets(timestamp: int, *indexes: int) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="many", partitions=parts)]
    )


def test_many_partitions_are_searched_by_time_in_slices() -> None:
    host = make_host(many=500)
    client = FrameClient(host)
    batch = batch_of(200)
    for index in range(500):
        client.ask(ApiKey.PRODUCE, 9, produce_to("many", index, batch))
    turns = Turns(host, ApiKey.LIST_OFFSETS, 7, list_offsets(1150, *range(500)))
    results = {(part.offset, part.timestamp) for part in turns.answer.topics[0].partitions}
    assert results == {(150, 1150)}
    assert turns.others_answered > 10
    assert turns.longest < CALLS_OF_A_TURN


def test_a_topic_may_be_deleted_during_a_search_by_time() -> None:
    host = make_host(many=100)
    client = FrameClient(host)
    for index in range(100):
        client.ask(ApiKey.PRODUCE, 9, produce_to("many", index, batch_of(1000)))
    client.send(ApiKey.LIST_OFFSETS, 7, list_offsets(1999, *range(100)))
    deletion = DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000)
    ask_settled(host, ApiKey.DELETE_TOPICS, 5, deletion)
    host.settle()
    ((_, response),) = client.take()
    codes = [part.error_code for part in response.topics[0].partitions]
    assert (codes[0], codes[-1]) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert set(codes) <= {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert host.runner.directory.disk.failure is None


def test_records_of_many_partitions_are_deleted_in_slices() -> None:
    host = make_host(many=300)
    client = FrameClient(host)
    for index in range(300):
        client.ask(ApiKey.PRODUCE, 9, produce_to("many", index, batch_of(3)))
    parts = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(300)]
    topics = [DeleteRecordsTopic(name="many", partitions=parts)]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
    turns = Turns(host, ApiKey.DELETE_RECORDS, 2, request)
    results = [(part.error_code, part.low_watermark) for part in turns.answer.topics[0].partitions]
    assert results == [(ErrorCode.NONE, 3)] * 300
    assert turns.others_answered > 20
    assert turns.longest < CALLS_OF_A_TURN // 4


def test_configs_of_many_topics_are_described_in_slices() -> None:
    host = make_host()
    create_topics(host, {f"topic-{number}": 1 for number in range(100)})
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC, resource_name=f"topic-{number}", configuration_keys=None
        )
        for number in range(100)
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    turns = Turns(host, ApiKey.DESCRIBE_CONFIGS, 4, request)
    assert [result.error_code for result in turns.answer.results] == [ErrorCode.NONE] * 100
    assert turns.others_answered > 5
    assert turns.longest < CALLS_OF_A_TURN


def test_many_logs_are_described_in_slices() -> None:
    host = make_host(many=3_000)
    turns = Turns(host, ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
    assert len(turns.answer.results[0].topics[0].partitions) == 3_000
    assert turns.others_answered > 2
    assert turns.longest < CALLS_OF_A_TURN


def test_a_batch_of_many_records_is_checked_in_slices() -> None:
    host = make_host(demo=1)
    create_topics(host, {"compacted": 1}, {"cleanup.policy": "compact"})
    for key, code in ((b"key", ErrorCode.NONE), (None, ErrorCode.INVALID_RECORD)):
        builder = BatchBuilder()
        for _ in range(50_000):
            builder.append(1000, b"key", None)
        builder.append(1000, key, None)
        turns = Turns(host, ApiKey.PRODUCE, 9, produce_to("compacted", 0, builder.build()))
        partition = turns.answer.responses[0].partition_responses[0]
        assert partition.error_code == code
        assert turns.others_answered > 10
        assert turns.longest < CALLS_OF_A_TURN
    assert host.node.replica_manager.by_log["compacted", 0].end == 50_001


def test_batches_of_a_client_keep_their_order_beside_a_sliced_one() -> None:
    host = make_host(demo=1)
    create_topics(host, {"compacted": 1}, {"cleanup.policy": "compact"})
    client = FrameClient(host)
    for count in (10_000, 1):
        builder = BatchBuilder()
        for _ in range(count):
            builder.append(1000, b"key", None)
        client.send(ApiKey.PRODUCE, 9, produce_to("compacted", 0, builder.build()))
    host.settle()
    results = [response.responses[0].partition_responses[0] for _, response in client.take()]
    assert [result.base_offset for result in results] == [0, 10_000]
