"""The cost of a request: in the node alone, on a virtual host, and in a server over a socket.

The client sends prepared frames, so that its own cost is small; "CPU" is the server's CPU time.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.node.frame_client import make_host

from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import NO_TIMESTAMP
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message

    Case = tuple[str, float, str]

ROUNDS = 5
#: The correlation id, and a byte that says that there are no tagged fields.
RESPONSE_HEADER_BYTES = 5
#: About what a batch of one record has besides the value.
BATCH_OVERHEAD_BYTES = 70


def cases() -> Iterator[Case]:
    yield from virtual_cases()
    with tempfile.TemporaryDirectory() as data:
        yield from start_cases(data)
        yield from server_cases(data)
    yield from traffic_cases()


def batch(size: int) -> bytes:
    builder = BatchBuilder()
    builder.append(NO_TIMESTAMP, None, b"x" * size)  # retention never deletes it
    return builder.build()


def produce(raw: bytes, acks: int = 1) -> ProduceRequest:
    parts = [PartitionProduceData(index=0, records=raw)]
    topics = [TopicProduceData(name="demo", partition_data=parts)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch(offset: int, max_bytes: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic="demo", partitions=[part])]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)


def frame(key: int, version: int, request: Message) -> bytes:
    return b"".join(request_frame(APIS[key], version, 1, "bench", request))


REQUESTS: dict[str, bytes] = {
    "ApiVersions v3": frame(
        ApiKey.API_VERSIONS,
        3,
        ApiVersionsRequest(client_software_name="bench", client_software_version="1"),
    ),
    "Metadata v12, all topics": frame(ApiKey.METADATA, 12, MetadataRequest(topics=None)),
    "Produce v9, 170-byte batch": frame(ApiKey.PRODUCE, 9, produce(batch(100))),
    "Fetch v12, one batch": frame(ApiKey.FETCH, 12, fetch(0, 1)),
}


def virtual_cases() -> Iterator[Case]:
    """The node without I/O: from request frame to response frame, with files in memory."""
    for name, raw in REQUESTS.items():
        best = min([virtual_round(raw) for _ in range(ROUNDS)])
        yield f"{name}: virtual host, 100 requests a turn", best, "µs/request"


def virtual_round(raw: bytes, turns: int = 20, per_turn: int = 100) -> float:
    host = make_host(demo=1)
    connection = host.connect()
    host.ask(connection, REQUESTS["Produce v9, 170-byte batch"])
    start = time.process_time()
    for _ in range(turns):
        for _ in range(per_turn):
            host.send(connection, raw)
        host.turn()
        connection.take()
    return (time.process_time() - start) / turns / per_turn * 1e6


def start_cases(data: str) -> Iterator[Case]:
    """From the command to the first response, and from SIGTERM to the exit."""
    started, stopped, memory = [], [], 0.0
    for _ in range(ROUNDS + 1):  # the first also writes byte code
        begin = time.perf_counter()
        with Server(data) as server:
            server.response_size(REQUESTS["Metadata v12, all topics"])
            started.append(time.perf_counter() - begin)
            memory = server.rss_mb()
            begin = time.perf_counter()
        stopped.append(time.perf_counter() - begin)
    yield "start: command to first answered Metadata", median(started[1:]) * 1000, "ms"
    yield "stop: SIGTERM to exit", median(stopped[1:]) * 1000, "ms"
    yield "memory after start", memory, "MB"


def server_cases(data: str) -> Iterator[Case]:
    with Server(data) as server:
        server.create_topic()
        for name, raw in REQUESTS.items():
            for in_flight in (1, 100):
                rounds = [server.round(raw, in_flight) for _ in range(ROUNDS)]
                wall = min([r[0] for r in rounds])
                cpu = min([r[1] for r in rounds])
                yield f"{name}: server, {in_flight} in flight", wall, "µs/request"
                yield f"{name}: server, {in_flight} in flight, CPU", cpu, "µs/request"
        yield "memory after that", server.rss_mb(), "MB"


#: The loads of one connection with pipelined requests: the bytes that a request produces or
#: fetches, and the number of requests.
PRODUCED = ((170, 40_000), (16 << 10, 8_000), (100 << 10, 3_000), (1_000_000, 400))
FETCHED = ((4 << 10, 10_000), (64 << 10, 5_000), (1 << 20, 800))
#: Requests in flight, by those bytes; 4 for all other sizes.
IN_FLIGHT = {170: 100, 4 << 10: 32}


def traffic_cases() -> Iterator[Case]:
    """The cost of pipelined Produce and Fetch requests, per request and per gigabyte."""
    for size, count in PRODUCED:
        with tempfile.TemporaryDirectory() as data, Server(data) as server:
            raw = frame(ApiKey.PRODUCE, 9, produce(batch(size - BATCH_OVERHEAD_BYTES)))
            server.create_topic()
            rounds = [server.stream(raw, IN_FLIGHT.get(size, 4), count) for _ in range(ROUNDS)]
            yield from traffic_lines(f"Produce v9, {size:,} bytes: pipelined", size, rounds)
    with tempfile.TemporaryDirectory() as data, Server(data) as server:
        server.create_topic()
        raw = frame(ApiKey.PRODUCE, 9, produce(batch(4000)))
        server.stream(raw, 4, 1_000)
        for size, count in FETCHED:
            raw = frame(ApiKey.FETCH, 12, fetch(0, size))
            rounds = [server.stream(raw, IN_FLIGHT.get(size, 4), count) for _ in range(ROUNDS)]
            yield from traffic_lines(f"Fetch v12, {size:,} bytes: pipelined", size, rounds)


def traffic_lines(name: str, size: int, rounds: list[tuple[float, float]]) -> Iterator[Case]:
    wall, cpu = (min([r[i] for r in rounds]) for i in (0, 1))
    yield name, wall, "µs/request"
    yield f"{name}, CPU", cpu, "µs/request"
    if size >= 16 << 10:
        yield f"{name}, CPU by volume", cpu * 1000 / size, "s/GB"


class Server:
    """A server process, and one connection to it."""

    def __init__(self, data: str, module: str = "kraftlog", **environment: str) -> None:
        command = [sys.executable, "-m", module, "start", "--data", data, "--port", "0"]
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= environment
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=env)
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if not ready.select(30):
                raise TimeoutError("the server is not ready after 30 s")
        line = os.read(self.process.stdout.fileno(), 200).decode()
        self.port = int(line.strip().rpartition(":")[2])
        self.sock = self.connect()

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def create_topic(self) -> None:
        """Create the topic `demo`: requests for a missing topic would cost nothing."""
        topic = CreatableTopic(
            name="demo", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        self.sock.sendall(frame(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic])))
        size: int = struct.unpack(">i", self.read_exactly(4))[0]
        api = APIS[ApiKey.CREATE_TOPICS]
        response: Any = decode(api.response(), 7, self.read_exactly(size)[RESPONSE_HEADER_BYTES:])
        assert [created.error_code for created in response.topics] == [0]

    def cpu_us(self) -> float:
        with open(f"/proc/{self.process.pid}/schedstat") as stat:
            return int(stat.read().split()[0]) / 1000

    def rss_mb(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def round(self, raw: bytes, in_flight: int) -> tuple[float, float]:
        """Wall and CPU microseconds per request, sent in blocks of `in_flight` requests.

        A block is sent once all responses to the previous one have arrived.
        """
        count = 20_000 if in_flight > 1 else 2_000
        size = self.response_size(raw)
        block = raw * in_flight
        cpu, start = self.cpu_us(), time.perf_counter()
        for _ in range(count // in_flight):
            self.sock.sendall(block)
            self.read_exactly(size * in_flight)
        wall = (time.perf_counter() - start) * 1e6
        return wall / count, (self.cpu_us() - cpu) / count

    def stream(self, raw: bytes, in_flight: int, count: int) -> tuple[float, float]:
        """Wall and CPU microseconds per request, with always `in_flight` requests in flight."""
        size = self.response_size(raw)
        buffer = memoryview(bytearray(max(size * in_flight, 1 << 20)))
        cpu, start = self.cpu_us(), time.perf_counter()
        self.sock.sendall(raw * in_flight)
        sent, awaited, received_bytes = in_flight, count, 0
        while awaited:
            received_bytes += self.sock.recv_into(buffer)
            responses, received_bytes = divmod(received_bytes, size)
            awaited -= responses
            more = min(responses, count - sent)
            if more:
                self.sock.sendall(raw * more)
                sent += more
        wall = (time.perf_counter() - start) * 1e6
        return wall / count, (self.cpu_us() - cpu) / count

    def response_size(self, raw: bytes) -> int:
        """The size of the response to a request, which is constant; the first one warms up."""
        self.sock.sendall(raw)
        size: int = struct.unpack(">i", self.read_exactly(4))[0]
        self.read_exactly(size)
        return 4 + size

    def read_exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self.sock.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionError("the server has closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
