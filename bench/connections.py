"""The effect on other clients of connections that pipeline, send partial requests or never read.

The node has 250 topics of 4 partitions. Each case measures the longest turn of the loop in CPU
time, the latency of another client's ApiVersions and Produce requests, and the memory of the node
before, during and after the connections.
"""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from bench.node import REQUESTS, Server, frame
from bench.stalls import TOPIC_RESOURCE, OtherClient, creation, receive
from bench.stalls_node import REPORT_FORMAT, REPORT_VARIABLE, open_report
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from kraftlog.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Case = tuple[str, float, str]

TOPICS = 250
PIPELINED = 4096
#: How long a node may take to free memory, and how long the clients that flood it send.
FREED_AFTER_S, SENDING_S = 3.0, 3.0
#: The length of a large request, as its first bytes.
LARGE_LENGTH = struct.pack(">i", 100 << 20)


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as data, tempfile.NamedTemporaryFile() as report:
        report.write(bytes(REPORT_FORMAT.size))
        report.flush()
        with Server(data, "bench.stalls_node", **{REPORT_VARIABLE: report.name}) as server:
            bench = Connections(server, report.name)
            bench.prepare()
            for name, raw in pipelined():
                yield from bench.measure(name, partial(bench.pipeline, raw))
            yield from bench.measure("10 connections that never read", bench.never_read)
            yield from bench.measure("1,000 lengths of large requests", bench.lengths)
            yield from bench.measure("30 halves of large requests", bench.halves)


def pipelined() -> Iterator[tuple[str, bytes]]:
    config = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="topic-0", configuration_keys=None
    )
    described = DescribeConfigsRequest(resources=[config])
    sizes = DescribeLogDirsRequest(topics=None)
    yield "1,000 DescribeConfigs", frame(ApiKey.DESCRIBE_CONFIGS, 4, described) * 1000
    yield "4,096 DescribeLogDirs of all", frame(ApiKey.DESCRIBE_LOG_DIRS, 4, sizes) * PIPELINED
    everything = frame(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    yield "4,096 Metadata of all", everything * PIPELINED
    yield "4,096 ApiVersions", REQUESTS["ApiVersions v3"] * PIPELINED


class Connections:
    """The cases: each returns the connections that it leaves open."""

    def __init__(self, server: Server, report: str) -> None:
        self._server = server
        self._report = open_report(report)

    def prepare(self) -> None:
        topics = {f"topic-{number}": 4 for number in range(TOPICS)}
        self._server.sock.sendall(frame(ApiKey.CREATE_TOPICS, 7, creation({**topics, "demo": 1})))
        receive(self._server.sock)
        time.sleep(2)  # a turn creates only a few logs

    def measure(
        self, name: str, open_connections: Callable[[], list[socket.socket]]
    ) -> Iterator[Case]:
        before_mb = self._server.rss_mb()
        other = OtherClient(self._server)
        self._report[:] = bytes(REPORT_FORMAT.size)
        other.start()
        opened = open_connections()
        meanwhile_mb = self._server.rss_mb()
        for sock in opened:
            sock.close()
        time.sleep(FREED_AFTER_S)
        waits_ms = other.stop()
        longest_ns, cause = REPORT_FORMAT.unpack(self._report[:])
        cause_name = cause.rstrip(bytes(1)).decode()
        yield f"{name}: longest turn ({cause_name}), CPU", longest_ns / 1e6, "ms"
        yield f"{name}: another client's latency, p99", waits_ms[len(waits_ms) * 99 // 100], "ms"
        yield f"{name}: another client's latency, max", waits_ms[-1], "ms"
        yield f"{name}: memory before", before_mb, "MB"
        yield f"{name}: memory during them", meanwhile_mb, "MB"
        yield f"{name}: memory after the connections are closed", self._server.rss_mb(), "MB"

    def pipeline(self, raw: bytes) -> list[socket.socket]:
        """Send everything at once; read the responses as they arrive."""
        sock = self._server.connect()
        sock.setblocking(False)
        left = memoryview(raw)
        quiet_since = time.perf_counter()
        while left or time.perf_counter() - quiet_since < 1:
            with suppress(BlockingIOError):
                left = left[sock.send(left) :]
            with suppress(BlockingIOError):
                if sock.recv(1 << 20):
                    quiet_since = time.perf_counter()
        return [sock]

    def never_read(self) -> list[socket.socket]:
        everything = frame(ApiKey.METADATA, 12, MetadataRequest(topics=None)) * PIPELINED
        return self._flood(10, everything)

    def lengths(self) -> list[socket.socket]:
        socks = [self._server.connect() for _ in range(1000)]
        for sock in socks:
            sock.sendall(LARGE_LENGTH)
        time.sleep(1)
        return socks

    def halves(self) -> list[socket.socket]:
        socks = [self._server.connect() for _ in range(30)]
        for sock in socks:
            sock.sendall(LARGE_LENGTH)
        return self._flood_all(socks, bytes(1 << 20))

    def _flood(self, count: int, raw: bytes) -> list[socket.socket]:
        return self._flood_all([self._server.connect() for _ in range(count)], raw)

    def _flood_all(self, socks: list[socket.socket], raw: bytes) -> list[socket.socket]:
        for sock in socks:
            sock.setblocking(False)
        until = time.perf_counter() + SENDING_S
        while time.perf_counter() < until:
            for sock in socks:
                with suppress(BlockingIOError, ConnectionError):
                    sock.send(raw)
            time.sleep(0.01)
        return socks
