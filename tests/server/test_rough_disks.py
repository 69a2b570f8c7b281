"""Real processes with a full disk, with files deleted during a response, with few descriptors."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.server.clients import consume, produce_all
from tests.server.node_process import NodeProcess, create_topics
from tests.server.raw import RawClient, fetch, open_descriptors, produce
from tests.server.with_limits import FILE_BYTES, OPEN_FILES
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.wire.schema import Message

VALUE = bytes(1000)
DESCRIPTORS = 1024
#: More partitions than descriptors.
PARTITIONS = 1100


def limited_node(tmp_path: Path) -> NodeProcess:
    return NodeProcess(
        str(tmp_path / "data"),
        errors=str(tmp_path / "errors.txt"),
        module="tests.server.with_limits",
    )


def write_until_refused(client: RawClient) -> tuple[int, int]:
    """Produce values until one is refused; return how many were accepted, and the error code."""
    for number in range(10_000):
        client.send(produce(number, VALUE))
        outcome = client.next_produce_response()
        assert outcome is not None, "the node closed the connection"
        if outcome[1]:
            return number, outcome[1]
        assert outcome[2] == number
    raise AssertionError("no value was refused")


def test_a_full_disk_refuses_records_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that fills the disk is short and is undone.

    Other clients are unaffected, and acknowledged records survive a kill.
    """
    monkeypatch.setenv(FILE_BYTES, str(200_000))
    node = limited_node(tmp_path)
    try:
        with RawClient(node.port) as client:
            accepted, code = write_until_refused(client)
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            assert 100 < accepted < 200
            assert node.output().count("File too large") == 1
            create_topics(node.port, {"others": 1})
            client.send(produce(1, VALUE))
            assert client.next_produce_response() == (1, ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert len(consume(node.address, accepted)) == accepted
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            client.send(produce(1, b"there is room"))
            assert client.next_produce_response() == (1, ErrorCode.NONE, accepted)
        node.kill()
        monkeypatch.delenv(FILE_BYTES)
        node = limited_node(tmp_path)
        assert consume(node.address, accepted + 1)[-1] == b"there is room"
    finally:
        node.kill_if_running()


@pytest.fixture
def other_client(node: NodeProcess) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def ask(client: RawClient, key: int, version: int, request: Message) -> bytes:
    client.send(b"".join(request_frame(APIS[key], version, 1, "raw", request)))
    response = client.next_response()
    assert response is not None, "the node closed the connection"
    return response[1][APIS[key].response_header_version(version) :]


def test_a_response_survives_the_deletion_of_its_topic(
    node: NodeProcess, other_client: RawClient
) -> None:
    """The files stay open until the response is sent, and other clients do not wait."""
    produce_all(node.address, [bytes([n]) * 900_000 for n in range(20)])
    with RawClient(node.port) as slow:
        slow.send(fetch(1) + fetch(2))
        beginning = slow.stream.peek(1)
        assert beginning, "the response has begun"
        request = DeleteTopicsRequest(topic_names=["demo"], timeout_ms=LIMIT_S * 1000)
        deleted = decode(
            DeleteTopicsResponse, 5, ask(other_client, ApiKey.DELETE_TOPICS, 5, request)
        )
        assert deleted.responses[0].error_code == ErrorCode.NONE
        other_client.round_trip()
        for number in (1, 2):
            response = slow.next_response()
            assert response is not None
            assert response[0] == number
            assert len(response[1]) > 20 * 900_000
    other_client.round_trip()
    assert node.stop() == 0


def test_more_logs_than_descriptors_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 1,024 descriptors: every partition can be written and read, and survives a kill."""
    monkeypatch.setenv(OPEN_FILES, str(DESCRIPTORS))
    node = limited_node(tmp_path)
    try:
        create_topics(node.port, {"wide": PARTITIONS})
        builder = BatchBuilder()
        builder.append(0, None, b"x")
        raw = builder.build()
        with RawClient(node.port) as client:
            missing = set(range(PARTITIONS))
            while missing:  # a partition refuses records until its log is open
                parts = [PartitionProduceData(index=i, records=raw) for i in sorted(missing)]
                topic = TopicProduceData(name="wide", partition_data=parts)
                request = ProduceRequest(acks=-1, timeout_ms=LIMIT_S * 1000, topic_data=[topic])
                response = decode(ProduceResponse, 9, ask(client, ApiKey.PRODUCE, 9, request))
                responses = response.responses[0].partition_responses
                assert {part.error_code for part in responses} <= {
                    ErrorCode.NONE,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                }
                missing -= {part.index for part in responses if not part.error_code}
            assert open_descriptors(node) < DESCRIPTORS
        node.kill()
        node = limited_node(tmp_path)
        with RawClient(node.port) as client:
            assert set(log_ends(client)) == {1}
            assert open_descriptors(node) < DESCRIPTORS
        assert node.stop() == 0
    finally:
        node.kill_if_running()


def log_ends(client: RawClient) -> list[int]:
    """The log end offsets, once all partitions are open."""
    partitions = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(PARTITIONS)]
    topic = ListOffsetsTopic(name="wide", partitions=partitions)
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    while True:
        response = decode(ListOffsetsResponse, 5, ask(client, ApiKey.LIST_OFFSETS, 5, request))
        responses = response.topics[0].partitions
        if not any(part.error_code for part in responses):
            return [part.offset for part in responses]
        assert {part.error_code for part in responses} <= {
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        }


@pytest.mark.parametrize("folder", ["/proc/kraftlog", "/sys/kraftlog"])
def test_an_unwritable_directory_is_reported(folder: str, tmp_path: Path) -> None:
    """The error has the directory's name."""
    assert not os.path.exists(folder)
    with pytest.raises(AssertionError, match=folder):
        NodeProcess(folder, errors=str(tmp_path / "errors.txt"))
