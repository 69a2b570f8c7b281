"""Invalid input closes its connection and never affects the node."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.server.clients import consume, produce_all
from tests.server.node_process import NodeProcess
from tests.server.raw import RawClient, api_versions, frame, resident_kib
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path


def is_closed_by_the_node(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhih", 10, 77, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 1, 1, 32000),
    ],
    ids=["http", "negative", "empty", "giant", "short", "unknown api", "long client id"],
)
def test_garbage_closes_only_its_own_connection(node: NodeProcess, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", node.port), LIMIT_S) as sock:
        sock.sendall(raw)
        assert is_closed_by_the_node(sock)
    produce_all(node.address, [b"still here"])
    assert consume(node.address, 1) == [b"still here"]


def test_a_request_may_arrive_byte_by_byte(node: NodeProcess) -> None:
    request = api_versions(5)
    with socket.create_connection(("127.0.0.1", node.port), LIMIT_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(request)):
            sock.sendall(request[position : position + 1])
        assert struct.unpack(">ii", sock.recv(8))[1] == 5


def test_responses_are_in_the_order_of_pipelined_requests(node: NodeProcess) -> None:
    count = 20_000
    requests = b"".join([api_versions(number) for number in range(count)])
    with socket.create_connection(("127.0.0.1", node.port), LIMIT_S) as sock:
        import threading

        sender = threading.Thread(target=sock.sendall, args=(requests,))
        sender.start()
        with sock.makefile("rb") as answers:
            for number in range(count):
                size, correlation_id = struct.unpack(">ii", answers.read(8))
                assert correlation_id == number
                answers.read(size - 4)
        sender.join()


def test_a_client_that_never_reads_responses_is_no_longer_read(
    node: NodeProcess,
) -> None:
    request = api_versions(1)
    with socket.create_connection(("127.0.0.1", node.port), LIMIT_S) as sock:
        sock.setblocking(False)
        stalled = False
        for _ in range(10_000):
            try:
                sock.send(request * 10_000)
            except BlockingIOError:
                stalled = True
                break
        assert stalled
        produce_all(node.address, [b"meanwhile"])
    assert resident_kib(node) < 200_000


def test_acks_0_that_is_refused_closes_the_connection(node: NodeProcess) -> None:
    part = PartitionProduceData(index=7, records=b"x")
    topic = TopicProduceData(name="demo", partition_data=[part])
    request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic])
    with RawClient(node.port) as refused, RawClient(node.port) as other:
        refused.send(frame(1, ApiKey.PRODUCE, request))
        assert refused.next_response() is None
        other.round_trip()
    assert "Produce with acks=0 is refused: demo-7" in node.output()
    assert node.stop() == 0


def test_a_second_node_on_a_directory_is_refused(node: NodeProcess, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="lock"):
        NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "second.txt"))


def test_a_port_in_use_is_reported(node: NodeProcess, tmp_path: Path) -> None:
    expected = f"listeners: PLAINTEXT://{node.address}: Address already in use"
    with pytest.raises(AssertionError, match=expected):
        NodeProcess(
            str(tmp_path / "other"), "--port", str(node.port), errors=str(tmp_path / "second.txt")
        )


def test_q5_a_node_with_another_id_than_its_directory_does_not_start(
    node: NodeProcess, tmp_path: Path
) -> None:
    """Q5: the configured node id differs from the one in meta.properties."""
    node.stop()
    with pytest.raises(AssertionError, match="start it with node id 1"):
        NodeProcess(str(tmp_path / "data"), "--node-id", "2", errors=str(tmp_path / "second.txt"))
