"""The node serves clients' requests on a virtual host: no socket, no clock, no disk."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.metadata.image import NO_LEADER
from kraftlog.node.broker.registration_refusals import UNKNOWN
from kraftlog.node.delayed_operations import MIN_CLEANUP_SIZE
from kraftlog.raft.describe import describe
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import ZSTD
from kraftlog.records.crc import crc32c
from kraftlog.records.header import CRC_START, HEADER_SIZE, read_header
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.types import METADATA_TOPIC_ID, NULL_UUID
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.messages.metadata_records import PartitionRecord
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, create_topics, make_host
from tests.virtual_host import CLUSTER_ID, SETTINGS, VirtualHost


def batch(*values: bytes, timestamp: int = 1000) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp, None, value)
    return builder.build()


def unreadable_batch() -> bytes:
    """A batch with a valid header and checksum, which the node checks, and invalid records."""
    builder = BatchBuilder()
    builder.append(1000, None, b"first")
    builder.append(2000, None, b"second")
    raw = bytearray(builder.build())
    raw[HEADER_SIZE] = 0x7F  # the size of the first record
    struct.pack_into(">I", raw, CRC_START - 4, crc32c(memoryview(raw)[CRC_START:]))
    return bytes(raw)


def produce(
    raw: bytes | None,
    acks: int = 1,
    topic: str = "demo",
    index: int = 0,
    topic_id: bytes = NULL_UUID,
) -> ProduceRequest:
    part = PartitionProduceData(index=index, records=raw)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])],
    )


def fetch(offset: int, max_wait_ms: int = 0, min_bytes: int = 1, **fields: Any) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **fields)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic="demo", partitions=[part])],
    )


def produce_result(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


def fetched_partition(response: Any) -> Any:
    return response.responses[0].partitions[0]


def values_in(response: Any) -> list[bytes | None]:
    raw = bytes(fetched_partition(response).records)
    return [r.value for position, _ in walk(raw) for r in read_records(raw, position)]


def test_produced_records_are_fetched_at_their_offsets() -> None:
    client = FrameClient(make_host())
    first = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b"))))
    second = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"c"), acks=-1)))
    assert (first.error_code, first.base_offset) == (ErrorCode.NONE, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.NONE, 2)
    response = client.ask(ApiKey.FETCH, 12, fetch(0))
    assert values_in(response) == [b"a", b"b", b"c"]
    assert fetched_partition(response).high_watermark == 3
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(2))) == [b"c"]


def test_topics_are_named_by_id_from_version_13_on() -> None:
    client = FrameClient(make_host())
    topic_id = client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None)).topics[0].topic_id
    request = produce(batch(b"a"), topic="", topic_id=topic_id)
    assert produce_result(client.ask(ApiKey.PRODUCE, 13, request)).error_code == ErrorCode.NONE
    unknown = produce(batch(b"a"), topic="", topic_id=b"x" * 16)
    result = produce_result(client.ask(ApiKey.PRODUCE, 13, unknown))
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_0_is_written_without_a_response() -> None:
    client = FrameClient(make_host())
    assert client.ask(ApiKey.PRODUCE, 7, produce(batch(b"a"), acks=0)) is None
    assert values_in(client.ask(ApiKey.FETCH, 4, fetch(0))) == [b"a"]
    assert client.connection.failure is None


@pytest.mark.parametrize("version", [7, 9])
def test_acks_0_that_is_refused_closes_the_connection(version: int) -> None:
    """As in Kafka: otherwise the producer would not learn that it must find the leader."""
    host = make_host()
    client, other = FrameClient(host), FrameClient(host)
    assert client.ask(ApiKey.PRODUCE, version, produce(batch(b"a"), acks=0, index=7)) is None
    expected = "Produce with acks=0 is refused: demo-7 UNKNOWN_TOPIC_OR_PARTITION"
    assert str(client.connection.failure) == expected
    assert other.ask(ApiKey.PRODUCE, version, produce(batch(b"a"), index=7)) is not None
    assert other.connection.failure is None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (produce(batch(b"a"), topic="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"a"), index=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"a"), acks=3), ErrorCode.INVALID_REQUIRED_ACKS),
        (produce(batch(b"a")[:-1] + b"?"), ErrorCode.CORRUPT_MESSAGE),
        (produce(None), ErrorCode.INVALID_RECORD),
    ],
    ids=["topic", "partition", "acks", "checksum", "null"],
)
def test_a_bad_produce_is_refused_and_leaves_nothing(request_: Any, code: int) -> None:
    client = FrameClient(make_host())
    result = produce_result(client.ask(ApiKey.PRODUCE, 9, request_))
    assert (result.error_code, result.base_offset) == (code, -1)
    assert fetched_partition(client.ask(ApiKey.FETCH, 12, fetch(0))).high_watermark == 0


def test_a_refused_partition_does_not_affect_the_others() -> None:
    client = FrameClient(make_host(demo=2))
    raw = batch(b"a")
    parts = [PartitionProduceData(index=index, records=raw) for index in (0, 9, 1)]
    request = ProduceRequest(
        acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="demo", partition_data=parts)]
    )
    results = client.ask(ApiKey.PRODUCE, 9, request).responses[0].partition_responses
    assert [(p.index, p.error_code, p.base_offset) for p in results] == [
        (0, ErrorCode.NONE, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, ErrorCode.NONE, 0),
    ]


def test_requests_after_a_waiting_fetch_are_answered_after_it() -> None:
    host = make_host()
    reader, writer = FrameClient(host), FrameClient(host)
    assert reader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500)) is None
    assert reader.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None)) is None
    assert produce_result(writer.ask(ApiKey.PRODUCE, 9, produce(batch(b"late")))).base_offset == 0
    responses = reader.take()
    assert [number for number, _ in responses] == [1, 2]
    assert values_in(responses[0][1]) == [b"late"]


def test_a_fetch_waits_for_min_bytes() -> None:
    host = make_host()
    reader, writer = FrameClient(host), FrameClient(host)
    enough = 2 * len(batch(b"0123456789"))
    assert reader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500, min_bytes=enough)) is None
    writer.ask(ApiKey.PRODUCE, 9, produce(batch(b"0123456789")))
    assert reader.take() == []
    writer.ask(ApiKey.PRODUCE, 9, produce(batch(b"0123456789")))
    assert len(values_in(reader.take()[0][1])) == 2


def test_a_fetch_without_enough_bytes_completes_after_max_wait() -> None:
    host = make_host()
    reader = FrameClient(host)
    assert reader.ask(ApiKey.FETCH, 12, fetch(0, max_wait_ms=500)) is None
    assert host.node.deadline() == 500
    host.pass_time(499)
    assert reader.take() == []
    host.pass_time(1)
    assert values_in(reader.take()[0][1]) == []
    assert host.node.deadline() != 500


def test_an_offset_outside_the_log_is_refused_at_once() -> None:
    client = FrameClient(make_host())
    result = fetched_partition(client.ask(ApiKey.FETCH, 12, fetch(1, max_wait_ms=500)))
    assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_in_a_newer_epoch_is_refused(epoch: int, code: int) -> None:
    """C153: the leader does not know an epoch that is newer than its own; -1 means any epoch."""
    client = FrameClient(make_host())
    response = client.ask(ApiKey.FETCH, 12, fetch(0, current_leader_epoch=epoch))
    assert fetched_partition(response).error_code == code


def test_a_failed_write_is_not_acknowledged() -> None:
    host = make_host()
    client, reader = FrameClient(host), FrameClient(host)
    client.ask(ApiKey.PRODUCE, 9, produce(batch(b"kept")))
    reader.send(ApiKey.FETCH, 12, fetch(1, max_wait_ms=1000))
    host.files.faults.append(Fault("pwritev"))
    result = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"lost"))))
    assert (result.error_code, result.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    refused = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"later"))))
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched_partition(reader.take()[0][1]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert any("Input/output error" in line for line in host.log_lines)


def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    host = make_host()
    client = FrameClient(host)

    def write(value: bytes) -> tuple[int, int]:
        result = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(value))))
        return result.error_code, result.base_offset

    assert write(b"before") == (ErrorCode.NONE, 0)
    host.files.capacity_bytes = host.files.used_bytes() + 100
    for _ in range(2):
        assert write(b"too much" * 100) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert len([line for line in host.log_lines if "No space left" in line]) == 1
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"before"]
    host.files.capacity_bytes = None
    assert write(b"after") == (ErrorCode.NONE, 1)
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"before", b"after"]


def test_an_unreadable_disk_is_an_error_and_logged_once() -> None:
    first = make_host()
    for value in (b"a", b"b", b"c"):
        FrameClient(first).ask(ApiKey.PRODUCE, 9, produce(batch(value)))
    first.runner.close()
    host = make_host(first.files)
    host.files.faults += [Fault("pread", times=100), Fault("preadv", times=100)]
    client = FrameClient(host)
    fetched = client.ask(ApiKey.FETCH, 12, fetch(1, max_wait_ms=500))
    assert fetched_partition(fetched).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    part = ListOffsetsPartition(partition_index=0, timestamp=1000)
    topics = [ListOffsetsTopic(name="demo", partitions=[part])]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    result = client.ask(ApiKey.LIST_OFFSETS, 4, request).topics[0].partitions[0]
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    refused = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"d"))))
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (
        len([line for line in host.log_lines if "offline until the node is restarted" in line]) == 1
    )


def test_abandoned_fetches_are_dropped_before_their_deadline() -> None:
    host = make_host()
    for _ in range(5000):
        reader = FrameClient(host)
        reader.send(ApiKey.FETCH, 12, fetch(0, max_wait_ms=2**31 - 1))
        reader.connection.responses.pop().abandon()
    assert len(host.node.delayed_operations) <= MIN_CLEANUP_SIZE
    assert host.node.replica_manager.by_log["demo", 0].fetches == {}


def test_a_fetch_is_limited_by_fetch_max_bytes() -> None:
    host = VirtualHost(settings=SETTINGS + "fetch.max.bytes=1024\n")
    create_topics(host, {"demo": 1})
    client = FrameClient(host)
    for _ in range(5):
        client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 300)))
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"x" * 300] * 2


def test_a_restarted_node_continues_at_its_log_end() -> None:
    first = make_host()
    FrameClient(first).ask(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b")))
    first.runner.close()
    client = FrameClient(make_host(first.files))
    assert values_in(client.ask(ApiKey.FETCH, 12, fetch(0))) == [b"a", b"b"]
    assert produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"c")))).base_offset == 2


def test_zstd_is_refused_before_produce_version_7() -> None:
    builder = BatchBuilder(codec=ZSTD)
    builder.append(1000, None, b"a")
    raw = builder.build()
    client = FrameClient(make_host())
    codes = [
        produce_result(client.ask(ApiKey.PRODUCE, version, produce(raw))).error_code
        for version in (6, 7)
    ]
    assert codes == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.NONE]


def test_a_recreated_topic_has_nothing_of_the_old_one() -> None:
    """Its name is the same, but its topic id differs."""
    host = make_host()
    client = FrameClient(host)
    client.ask(ApiKey.PRODUCE, 9, produce(batch(b"old")))
    client.send(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["demo"], timeout_ms=1000))
    host.settle()
    ((_, deleted),) = client.take()
    assert [topic.error_code for topic in deleted.responses] == [ErrorCode.NONE]
    refused = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"lost"))))
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topics(host, {"demo": 1})
    assert fetched_partition(client.ask(ApiKey.FETCH, 12, fetch(0))).high_watermark == 0
    assert produce_result(client.ask(ApiKey.PRODUCE, 9, produce(batch(b"new")))).base_offset == 0


def test_topics_and_their_records_survive_a_kill() -> None:
    first = make_host(demo=1, more=2)
    FrameClient(first).ask(ApiKey.PRODUCE, 9, produce(batch(b"kept")))
    ids = dict(first.node.image.topic_ids)
    first.files.kill()
    restarted = VirtualHost(first.files)
    assert restarted.node.image.topic_ids == ids
    fetched = FrameClient(restarted).ask(ApiKey.FETCH, 12, fetch(0))
    assert fetched_partition(fetched).high_watermark == 1


def test_a_partition_without_leader_is_leader_not_available() -> None:
    host = make_host()
    [key] = host.node.image.partitions
    leaderless = PartitionRecord(
        partition_id=0,
        topic_id=key[0],
        replicas=(2,),
        isr=(2,),
        removing_replicas=(),
        adding_replicas=(),
        leader=NO_LEADER,
        leader_epoch=1,
    )
    host.node.replay([leaderless], 0)
    response = FrameClient(host).ask(ApiKey.METADATA, 13, MetadataRequest(topics=None))
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        NO_LEADER,
    )


def test_metadata_has_the_cluster_its_broker_and_its_topics() -> None:
    client = FrameClient(make_host(demo=2))
    response = client.ask(ApiKey.METADATA, 13, MetadataRequest(topics=None))
    assert response.cluster_id == CLUSTER_ID
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert [(p.partition_index, p.leader_id) for p in response.topics[0].partitions] == [
        (0, 1),
        (1, 1),
    ]
    unknown = [
        MetadataRequestTopic(name="nobody"),
        MetadataRequestTopic(name=None, topic_id=b"x" * 16),
    ]
    request = MetadataRequest(topics=unknown, allow_auto_topic_creation=False)
    codes = [t.error_code for t in client.ask(ApiKey.METADATA, 13, request).topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_missing_topic_is_created_if_the_client_allows_it() -> None:
    client = FrameClient(make_host(demo=1))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    client.send(ApiKey.METADATA, 13, request)
    client.host.settle()
    ((_, response),) = client.take()
    assert [(t.name, t.error_code, len(t.partitions)) for t in response.topics] == [("new", 0, 1)]
    bad = MetadataRequest(topics=[MetadataRequestTopic(name="a/b")])
    [topic] = client.ask(ApiKey.METADATA, 13, bad).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_bytes_after_a_request_are_ignored() -> None:
    """librdkafka sends a four-byte length for the null array of all topics."""
    client = FrameClient(make_host())
    body = b"\0\0\0\0\1\0\0"
    head = struct.pack(">ihhihb", 11 + len(body), ApiKey.METADATA, 13, 1, -1, 0)
    client.requests.append((ApiKey.METADATA, 13))
    client.host.send(client.connection, head + body)
    [(_, response)] = client.take()
    assert [topic.name for topic in response.topics] == ["demo"]


def test_a_search_by_timestamp_in_corrupt_records_returns_an_error() -> None:
    client = FrameClient(make_host())
    result = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(unreadable_batch())))
    assert result.error_code == ErrorCode.NONE
    for timestamp in (1001, -3):
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name="demo", partitions=[part])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        [partition] = client.ask(ApiKey.LIST_OFFSETS, 7, request).topics[0].partitions
        assert (partition.error_code, partition.offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


@pytest.mark.parametrize("version", [1, 4, 11])
def test_list_offsets_finds_ends_and_timestamps(version: int) -> None:
    """-1 asks for the end of the log, -2 for its start, -3 for the largest timestamp."""
    client = FrameClient(make_host())
    for timestamp in (1000, 3000, 2000):
        client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x", timestamp=timestamp)))

    def ask(timestamp: int) -> tuple[int, int]:
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name="demo", partitions=[part])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        result = client.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]
        assert result.error_code == ErrorCode.NONE
        return result.offset, result.timestamp

    assert ask(-1) == (3, -1)
    assert ask(-2) == (0, -1)
    if version >= 7:
        assert ask(-3) == (1, 3000)
    assert ask(1001) == (1, 3000)
    assert ask(9999) == (-1, -1)


def test_unknown_api_versions_version_gets_a_version_0_response() -> None:
    host = make_host()
    client = FrameClient(host)
    future = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 99, 77, -1)
    host.send(client.connection, future)
    host.turn()
    raw = client.connection.take()
    assert raw == struct.pack(">iihihhh", 16, 77, 35, 1, ApiKey.API_VERSIONS, 0, 5)


def test_api_versions_returns_the_served_apis() -> None:
    client = FrameClient(make_host())
    for version in range(6):
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        if version < 3:
            request = ApiVersionsRequest()
        keys = client.ask(ApiKey.API_VERSIONS, version, request).api_keys
        assert (keys[0].api_key, keys[0].min_version, keys[0].max_version) == (0, 0, 13)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (struct.pack(">ihhih", 10, 4, 0, 1, -1), "API 4 is not served"),
        (struct.pack(">ihhih", 10, ApiKey.PRODUCE, 2, 1, -1), "Produce version 2 is not served"),
        (struct.pack(">ihh", 4, 18, 0), "invalid request header"),
        (struct.pack(">ihhih", 10, 18, 0, 1, 500), "invalid request header"),
        (struct.pack(">ihhihB", 11, ApiKey.METADATA, 1, 1, -1, 0), "MetadataRequest v1"),
        (struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 1, -1, 7), "MetadataRequest v1"),
    ],
)
def test_a_malformed_request_closes_the_connection(frame: bytes, message: str) -> None:
    host = make_host()
    with pytest.raises(ProtocolError, match=message):
        host.send(host.connect(), frame)


def test_q27_consumers_of_the_metadata_log_do_not_count_as_its_replicas() -> None:
    """Only a fetch on the controller listener can be that of a replica of the quorum."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[part])],
    )
    host = make_host()
    replica = request.replace(replica_state=ReplicaState(replica_id=7))
    response = FrameClient(host).ask(ApiKey.FETCH, 17, replica)
    assert fetched_partition(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    fetched = fetched_partition(FrameClient(host).ask(ApiKey.FETCH, 17, request))
    assert fetched.high_watermark == host.node.quorum.core.log.high_watermark > 0
    *_, (position, _) = walk(fetched.records)
    assert read_header(fetched.records, position).last_offset + 1 == fetched.high_watermark
    description = describe(host.node.quorum.core, host.now)
    assert description is not None
    assert description.observers == ()
    response = FrameClient(host, CONTROLLER).ask(ApiKey.FETCH, 17, request)
    assert fetched_partition(response).error_code == ErrorCode.NONE


def test_v4_an_unsupported_replication_factor_is_refused() -> None:
    """There are fewer brokers than replicas."""
    client = FrameClient(make_host(demo=1))
    two = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    for count, factor, assignments in ((1, 2, ()), (-1, -1, (two,))):
        topic = CreatableTopic(
            name="wide",
            num_partitions=count,
            replication_factor=factor,
            assignments=assignments,
            configs=(),
        )
        [result] = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic])).topics
        assert result.error_code in {
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        }


def test_v5_a_broker_is_ready_once_it_has_replayed_its_unfencing() -> None:
    """Clients see the image, which may lag behind the controller's response."""
    host = make_host()
    me = host.node.image.brokers[1]
    ready = []
    for broker in (me, me.replace(fenced=True), me.replace(epoch=me.epoch - 1)):
        host.node.image.brokers[1] = broker
        ready.append(host.node.is_ready)
    assert ready == [True, False, False]


def test_v5_a_new_active_controller_does_not_fence_its_own_broker() -> None:
    """Fencing would leave its partitions leaderless. Only an earlier incarnation is fenced."""
    for is_restarted in (False, True):
        host = make_host(demo=1)
        node = host.node
        assert node.broker_lifecycle is not None
        if is_restarted:
            node.broker_lifecycle.incarnation = bytes(16)  # the log has the previous incarnation
            node.broker_lifecycle.epoch = UNKNOWN
        node.leader_changed(-1, node.quorum.core.election.epoch)
        node.became_leader(node.quorum.core.election.epoch, host.now)
        before = partition_epoch(host)
        host.settle()
        assert (partition_epoch(host) > before) == is_restarted


def partition_epoch(host: VirtualHost) -> int:
    """The partition epoch, which every change of leader or ISR increases."""
    [partition] = host.node.image.partitions.values()
    return partition.partition_epoch
