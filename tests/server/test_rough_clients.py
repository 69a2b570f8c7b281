"""Slow, many, disconnected or greedy clients affect no others and leak nothing."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest
from tests.server.clients import consume, produce_all
from tests.server.node_process import NodeProcess
from tests.server.raw import (
    MAX_WAIT_MS,
    RawClient,
    api_versions,
    fetch,
    frame,
    open_descriptors,
    produce,
    resident_kib,
)
from tests.server.with_few_descriptors import TAKEN
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

#: Number of connections, one after the other; each would leak a descriptor.
MANY = 400
#: Number of idle connections; more than a client program would open.
IDLE = 1000
#: Number of round trips, and so of turns of the loop, without a free descriptor.
TURNS = 1000


def wait_for_descriptors(node: NodeProcess, count: int) -> None:
    """Wait until the node has at most `count` descriptors open."""
    with RawClient(node.port) as client:
        for _ in range(10_000):
            client.round_trip()
            if open_descriptors(node) <= count + 1:  # one is this client's connection
                return
    raise AssertionError(f"{open_descriptors(node)} descriptors are open; there were {count}")


def test_a_slow_consumer_gets_everything_beside_a_fast_one(node: NodeProcess) -> None:
    values = [bytes([n]) * 900_000 for n in range(20)]
    produce_all(node.address, values)
    with RawClient(node.port) as slow:
        slow.send(fetch(1) + fetch(2))
        assert consume(node.address, len(values)) == values
        for number in (1, 2):
            response = slow.next_response()
            assert response is not None
            assert response[0] == number
            assert len(response[1]) > 20 * 900_000
    assert node.stop() == 0


def test_disconnecting_during_a_response_leaks_nothing(node: NodeProcess) -> None:
    produce_all(node.address, [bytes(900_000)] * 20)
    before = open_descriptors(node)
    for _ in range(20):
        with RawClient(node.port) as client:
            client.send(fetch(1) * 8)
            assert client.sock.recv(100)
    wait_for_descriptors(node, before)
    assert len(consume(node.address, 20)) == 20


def test_disconnecting_during_a_delayed_fetch_leaks_nothing(node: NodeProcess) -> None:
    with RawClient(node.port) as client:
        client.round_trip()
        before = open_descriptors(node) - 1
    for _ in range(MANY):
        with RawClient(node.port) as client:
            client.send(fetch(1, max_wait_ms=MAX_WAIT_MS))
    wait_for_descriptors(node, before)
    with RawClient(node.port) as waiting, RawClient(node.port) as writer:
        waiting.send(fetch(1, max_wait_ms=MAX_WAIT_MS))
        writer.send(produce(1, b"at last"))
        partition = writer.message(ApiKey.PRODUCE).responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, 0)
        assert waiting.message(ApiKey.FETCH).responses[0].partitions[0].high_watermark == 1


def test_responses_follow_that_of_a_delayed_request(node: NodeProcess) -> None:
    with RawClient(node.port) as client, RawClient(node.port) as writer:
        client.send(fetch(1, max_wait_ms=MAX_WAIT_MS))
        client.send(b"".join([api_versions(number) for number in range(2, 6000)]))
        writer.send(produce(1, b"x"))
        assert writer.next_response() is not None
        numbers = [response[0] for _ in range(5999) if (response := client.next_response())]
        assert numbers == list(range(1, 6000))


def test_a_thousand_idle_connections_delay_nothing(node: NodeProcess) -> None:
    before = open_descriptors(node)
    idle = [RawClient(node.port) for _ in range(IDLE)]
    request = api_versions(7)
    try:
        for client in idle:
            client.send(request[:9])
        produce_all(node.address, [b"meanwhile"])
        for client in idle:
            client.send(request[9:])
            assert client.next_response() is not None
    finally:
        for client in idle:
            client.close()
    wait_for_descriptors(node, before + 2)  # the log's files have been opened since


def test_a_frame_length_alone_uses_no_memory(node: NodeProcess) -> None:
    with RawClient(node.port) as other:
        clients = [RawClient(node.port) for _ in range(20)]
        try:
            for client in clients:
                client.send(struct.pack(">i", 100 << 20) + bytes(80 << 10))
            other.round_trip()
            assert resident_kib(node) < 200_000
        finally:
            for client in clients:
                client.close()


def test_memory_of_clients_that_never_read_is_released(tmp_path: Path) -> None:
    """So is that of a thousand clients that send only the length of a large request."""
    node = NodeProcess(
        str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={"wide": 400}
    )
    request = frame(1, ApiKey.METADATA, MetadataRequest(topics=None)) * 4096
    try:
        with RawClient(node.port) as other:
            other.round_trip()
            before_kib = resident_kib(node)
            clients = [RawClient(node.port) for _ in range(10)]
            for client in clients:
                client.sock.setblocking(False)
                with suppress(BlockingIOError):
                    while True:
                        client.sock.send(request)
            clients += [RawClient(node.port) for _ in range(IDLE)]
            for client in clients[10:]:
                client.send(struct.pack(">i", 100 << 20))
            other.round_trip()
            assert resident_kib(node) < before_kib + 100_000
            for client in clients:
                client.close()
            deadline = Deadline(LIMIT_S)
            while resident_kib(node) > before_kib + 20_000:
                other.round_trip()
                assert deadline.left_s() > 0, f"{resident_kib(node)} KiB, before {before_kib}"
        assert node.stop() == 0
    finally:
        node.kill_if_running()


@pytest.mark.parametrize("taken", [0, 30])
def test_without_descriptors_connections_wait_and_the_loop_idles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    monkeypatch.setenv(TAKEN, str(taken))
    node = NodeProcess(
        str(tmp_path / "data"),
        errors=str(tmp_path / "errors.txt"),
        module="tests.server.with_few_descriptors",
    )
    try:
        clients = [RawClient(node.port) for _ in range(70)]
        try:
            for _ in range(TURNS):
                clients[0].round_trip()
            clients[0].send(produce(1, b"still written"))
            assert clients[0].next_response() is not None
            # The line is logged once per second, not in every turn.
            assert 1 <= node.output().count("new connections wait") < TURNS // 2
        finally:
            for client in clients:
                client.close()
        with RawClient(node.port) as newcomer:
            newcomer.round_trip()
        assert node.stop() == 0
    finally:
        node.kill_if_running()


def test_a_too_large_batch_is_refused_without_closing(node: NodeProcess) -> None:
    with RawClient(node.port) as client:
        client.send(produce(1, bytes(3 << 20)))
        partition = client.message(ApiKey.PRODUCE).responses[0].partition_responses[0]
        assert partition.error_code == ErrorCode.MESSAGE_TOO_LARGE
        client.send(produce(2, b"small"))
        partition = client.message(ApiKey.PRODUCE).responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, 0)
