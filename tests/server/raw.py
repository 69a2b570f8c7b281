"""A client that can send any bytes, even those that no Kafka client sends."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Any

from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.server.clients import TOPIC
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message
    from tests.server.node_process import NodeProcess

VERSIONS = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.METADATA: 9, ApiKey.API_VERSIONS: 0}
VERSIONS |= {ApiKey.CREATE_TOPICS: 7, ApiKey.DELETE_TOPICS: 5}
#: The largest value of the field: longer than any wait of a test.
MAX_WAIT_MS = 2**31 - 1
_SIZE_AND_ID = struct.Struct(">ii")


def frame(correlation_id: int, api_key: int, request: Message) -> bytes:
    pieces = request_frame(APIS[api_key], VERSIONS[api_key], correlation_id, "raw", request)
    return b"".join(pieces)


def api_versions(correlation_id: int) -> bytes:
    return struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, correlation_id, -1)


def produce(correlation_id: int, *values: bytes) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(0, None, value)
    data = PartitionProduceData(index=0, records=builder.build())
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=LIMIT_S * 1000, topic_data=[topic])
    return frame(correlation_id, ApiKey.PRODUCE, request)


def fetch(
    correlation_id: int, offset: int = 0, *, max_wait_ms: int = 0, max_bytes: int = 50 << 20
) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[part])]
    )
    return frame(correlation_id, ApiKey.FETCH, request)


class RawClient:
    """A connection; it returns a response as its correlation id and its body."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.stream = self.sock.makefile("rb")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stream.close()
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def next_response(self) -> tuple[int, bytes] | None:
        """The next response, or None if the node has closed the connection."""
        try:
            head = self.stream.read(_SIZE_AND_ID.size)
            if len(head) < _SIZE_AND_ID.size:
                return None
            size, correlation_id = _SIZE_AND_ID.unpack(head)
            body = self.stream.read(size - 4)
        except ConnectionResetError:
            return None
        return (correlation_id, body) if len(body) == size - 4 else None

    def next_produce_response(self) -> tuple[int, int, int] | None:
        """The next response to `produce`: correlation id, error code and base offset."""
        received = self.next_response()
        if received is None:
            return None
        correlation_id, body = received
        response = decode(ProduceResponse, VERSIONS[ApiKey.PRODUCE], body[1:])
        part = response.responses[0].partition_responses[0]
        return correlation_id, part.error_code, part.base_offset

    def message(self, api_key: int) -> Any:
        """The next response as a message."""
        response = self.next_response()
        assert response is not None, "the node closed the connection"
        api, version = APIS[api_key], VERSIONS[api_key]
        return decode(api.response(), version, response[1][api.response_header_version(version) :])

    def round_trip(self) -> None:
        """Send a request and receive its response, so that the node has run a turn."""
        self.send(api_versions(7))
        response = self.next_response()
        assert response is not None
        assert response[0] == 7


def open_descriptors(node: NodeProcess) -> int:
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def resident_kib(node: NodeProcess) -> int:
    with open(f"/proc/{node.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
