"""The bare server implements what the clients of the benchmarks need."""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from bench.beside import frame_client
from bench.beside.peers import bare_node, running
from bench.cluster.bare import FOLLOWERS, BareCluster

from kraftlog.client.deadline import Deadline
from kraftlog.errors import UnreachableError
from kraftlog.records.header import LENGTH_OVERHEAD
from kraftlog.records.walk import walk
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kraftlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.produce import ProduceResponse
from tests.interop.cache import UnavailableError
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.client.connection import Connection

TOPIC = "any"
EARLIEST, LATEST = -2, -1
#: Bytes of a record; more than the server receives at once.
LARGE = 3_000_000


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    try:
        node = bare_node(str(tmp_path))
    except UnavailableError as complaint:
        pytest.skip(f"the bare server: {complaint}")
    with running(node):
        frame_client.create_topic(node.port, TOPIC)
        yield node.port


@pytest.fixture
def connection(port: int) -> Iterator[Connection]:
    with closing(frame_client.connect(port)) as connection:
        yield connection


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[BareCluster]:
    try:
        cluster = BareCluster(str(tmp_path))
        with cluster.running():
            cluster.create_topic(TOPIC)
            yield cluster
    except UnavailableError as complaint:
        pytest.skip(f"the bare server: {complaint}")


def produce(connection: Connection, size: int = 100, version: int | None = None) -> int:
    """Produce a batch of one record; return its offset."""
    response = connection.call(
        frame_client.produce_request(TOPIC, size), frame_client.deadline(), version
    )
    assert isinstance(response, ProduceResponse)
    [[partition]] = [topic.partition_responses for topic in response.responses]
    assert partition.error_code == 0
    return partition.base_offset


def batches_of(response: object) -> list[tuple[int, int]]:
    """Offset and length field of each batch in a response."""
    assert isinstance(response, FetchResponse)
    [[partition]] = [topic.partitions for topic in response.responses]
    assert partition.error_code == 0
    return [(fields[0], fields[1]) for _, fields in walk(bytes(partition.records or b""))]


def fetch(connection: Connection, offset: int, max_bytes: int = 1 << 30) -> list[tuple[int, int]]:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=TOPIC, partitions=[part])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
    return batches_of(connection.call(request, frame_client.deadline()))


@pytest.mark.parametrize("version", [7, 9])
def test_produced_batches_are_fetched(connection: Connection, version: int) -> None:
    assert [produce(connection, size, version) for size in (1, LARGE, 100)] == [0, 1, 2]
    sizes = dict(fetch(connection, 0))
    assert list(sizes) == [0, 1, 2]
    assert sizes[0] < sizes[2] < LARGE < sizes[1]
    assert [offset for offset, _ in fetch(connection, 1)] == [1, 2]


def test_a_fetch_returns_complete_batches_and_at_least_one(connection: Connection) -> None:
    for _ in range(5):
        produce(connection)
    size = LENGTH_OVERHEAD + fetch(connection, 0)[0][1]
    assert [offset for offset, _ in fetch(connection, 1, max_bytes=1)] == [1]
    assert [offset for offset, _ in fetch(connection, 1, max_bytes=3 * size - 1)] == [1, 2]
    assert [offset for offset, _ in fetch(connection, 1, max_bytes=3 * size)] == [1, 2, 3]


def test_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    for _ in range(1200):
        connection.send(frame_client.produce_request(TOPIC, 10), frame_client.deadline())
    offsets = []
    for _ in range(1200):
        response = connection.receive(frame_client.deadline())
        assert isinstance(response, ProduceResponse)
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(1200))
    assert [offset for offset, _ in fetch(connection, 0)] == offsets


def test_a_fetch_at_the_log_end_waits_for_a_batch(connection: Connection, port: int) -> None:
    produce(connection)
    with closing(frame_client.connect(port)) as consumer:
        consumer.send(frame_client.fetch_request(TOPIC, 1), frame_client.deadline())
        assert produce(connection) == 1
        batches = batches_of(consumer.receive(frame_client.deadline()))
        assert [offset for offset, _ in batches] == [1]


def test_creating_any_topic_empties_the_only_log(connection: Connection, port: int) -> None:
    """All topics of the bare server are the same log."""
    produce(connection)
    produce(connection)
    assert [offset_of(connection, each) for each in (EARLIEST, LATEST)] == [0, 2]
    frame_client.create_topic(port, "another")
    assert [offset_of(connection, each) for each in (EARLIEST, LATEST)] == [0, 0]
    assert produce(connection) == 0


def offset_of(connection: Connection, timestamp: int) -> int:
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[part])]
    response = connection.call(
        ListOffsetsRequest(replica_id=-1, topics=topics), frame_client.deadline()
    )
    assert isinstance(response, ListOffsetsResponse)
    return response.topics[0].partitions[0].offset


def test_each_producer_gets_its_own_id(connection: Connection) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    responses = [connection.call(request, frame_client.deadline()) for _ in range(2)]
    ids = [each.producer_id for each in responses if isinstance(each, InitProducerIdResponse)]
    assert len(set(ids)) == 2


def test_a_partial_batch_is_discarded(connection: Connection, port: int) -> None:
    produce(connection)
    request = frame_client.frame(
        ApiKey.PRODUCE, frame_client.PRODUCE_VERSION, frame_client.produce_request(TOPIC, LARGE)
    )
    with socket.create_connection(("127.0.0.1", port)) as broken:
        broken.sendall(request[: LARGE // 2])
        broken.shutdown(socket.SHUT_WR)
        assert broken.recv(1) == b""  # the server has closed the connection
    assert produce(connection) == 1
    assert [offset for offset, _ in fetch(connection, 0)] == [0, 1]


def test_followers_have_the_acknowledged_records(replicated: BareCluster, tmp_path: Path) -> None:
    with closing(frame_client.connect(replicated.first.port)) as producer:
        offsets = [produce(producer, size) for size in (1, LARGE, 100)]
    [leader] = [path.read_bytes() for path in tmp_path.glob("*/leader")]
    followers = [path.read_bytes() for path in tmp_path.glob("*/follower-*")]
    assert followers == [leader] * FOLLOWERS
    assert [fields[0] for _, fields in walk(leader)] == offsets == [0, 1, 2]


def test_a_batch_waits_for_all_followers(replicated: BareCluster) -> None:
    stopped = replicated.followers[0].pid
    port = replicated.first.port
    with (
        closing(frame_client.connect(port)) as producer,
        closing(frame_client.connect(port)) as consumer,
        closing(frame_client.connect(port)) as observer,
    ):
        os.kill(stopped, signal.SIGSTOP)
        producer.send(frame_client.produce_request(TOPIC, 100), frame_client.deadline())
        consumer.send(frame_client.fetch_request(TOPIC, 0), frame_client.deadline())
        end = Deadline(LIMIT_S)
        while offset_of(observer, LATEST) == 0:
            assert not end.is_over
        assert select.select([producer, consumer], [], [], 0)[0] == []
        os.kill(stopped, signal.SIGCONT)
        assert isinstance(producer.receive(frame_client.deadline()), ProduceResponse)
        batches = batches_of(consumer.receive(frame_client.deadline()))
        assert [offset for offset, _ in batches] == [0]


def test_a_client_that_closes_before_it_has_read_ends_nothing(
    connection: Connection, port: int
) -> None:
    """The answers are sent from the file to a connection that is reset meanwhile (SIGPIPE)."""
    produce(connection, LARGE)
    for _ in range(20):
        with closing(frame_client.connect(port)) as leaver:
            for _ in range(4):
                leaver.send(frame_client.fetch_request(TOPIC, 0), frame_client.deadline())
            select.select([leaver], [], [], LIMIT_S)
    assert [offset for offset, _ in fetch(connection, 0)] == [0]


def test_an_unknown_request_closes_the_connection(connection: Connection, port: int) -> None:
    with pytest.raises(UnreachableError, match="closed"):
        connection.call(
            frame_client.retention_change(TOPIC, 1),
            frame_client.deadline(),
            frame_client.ALTER_VERSION,
        )
    with closing(frame_client.connect(port)) as another:
        assert produce(another) == 0
