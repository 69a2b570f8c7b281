"""Stalls: the effect of one client's requests on others, on a node with 10,000 partitions.

A case is a few large or expensive requests, sent at once by a client of its own. It measures the
longest turn of the loop in CPU time, and the latency of another client's sequential ApiVersions and
Produce requests.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import cramjam

from bench.node import REQUESTS, Server, frame
from bench.stalls_node import REPORT_FORMAT, REPORT_VARIABLE, open_report
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import GZIP, ZSTD
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP_START,
)
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
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
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message

    Case = tuple[str, float, str]

#: The topic with most of the node's partitions, its partitions, and the topics with one partition.
MANY, MANY_PARTITIONS, SINGLES = "many", 9_000, 1_000
TOPIC_RESOURCE = 2
#: The timeout of a response.
TIMEOUT_S = 120
#: How long the other client continues after the last response, as requests may have late effects.
AFTERWARDS_S = 0.5


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as data, tempfile.NamedTemporaryFile() as report:
        report.write(bytes(REPORT_FORMAT.size))
        report.flush()
        with Server(data, "bench.stalls_node", **{REPORT_VARIABLE: report.name}) as server:
            stalls = Stalls(server, report.name)
            stalls.prepare()
            for name, requests in stalls.cases():
                yield from stalls.measure(name, requests)


class OtherClient(threading.Thread):
    """A client that repeats small requests and measures their latency in milliseconds."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._sock = server.connect()
        self._sock.settimeout(TIMEOUT_S)
        self._frames = (REQUESTS["ApiVersions v3"], produce("demo", 0, batch(1)))
        self._stopped = threading.Event()
        self.waits_ms: list[float] = []

    def run(self) -> None:
        while not self._stopped.wait(0.001):
            for raw in self._frames:
                began = time.perf_counter()
                self._sock.sendall(raw)
                receive(self._sock)
                self.waits_ms.append((time.perf_counter() - began) * 1000)

    def stop(self) -> list[float]:
        self._stopped.set()
        self.join()
        self._sock.close()
        return sorted(self.waits_ms)


class Stalls:
    """The cases and their preparation."""

    def __init__(self, server: Server, report: str) -> None:
        self._server = server
        self._report = open_report(report)

    def measure(self, name: str, frames: list[bytes]) -> Iterator[Case]:
        other = OtherClient(self._server)
        sock = self._server.connect()
        sock.settimeout(TIMEOUT_S)
        self._report[:] = bytes(REPORT_FORMAT.size)
        other.start()
        began = time.perf_counter()
        sock.sendall(b"".join(frames))
        for _ in frames:
            receive(sock)
        took_s = time.perf_counter() - began
        time.sleep(AFTERWARDS_S)
        waits_ms = other.stop()
        longest_ns, cause = REPORT_FORMAT.unpack(self._report[:])
        sock.close()
        yield (
            f"{name}: longest turn ({cause.rstrip(bytes(1)).decode()}), CPU",
            longest_ns / 1e6,
            "ms",
        )
        yield f"{name}: another client's latency, p99", waits_ms[len(waits_ms) * 99 // 100], "ms"
        yield f"{name}: time to the response", took_s * 1000, "ms"

    def call(self, key: int, version: int, request: Message) -> Any:
        """Send a request of the preparation; return its response."""
        self._server.sock.sendall(frame(key, version, request))
        raw = receive(self._server.sock)
        api = APIS[key]
        return decode(api.response(), version, raw[4 + api.response_header_version(version) :])

    def send(self, frames: list[bytes]) -> None:
        """Send many requests of the preparation, a hundred at a time."""
        for start in range(0, len(frames), 100):
            self._server.sock.sendall(b"".join(frames[start : start + 100]))
            for _ in frames[start : start + 100]:
                receive(self._server.sock)

    # Preparation ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.create({MANY: MANY_PARTITIONS, "demo": 1})
        self.create({f"single-{number}": 1 for number in range(SINGLES)})
        self.create({"packed": 4, "dense": 100, "sequences": 1})
        self.create({"compacted": 1}, {"cleanup.policy": "compact"})
        self.wait_until_open(MANY, MANY_PARTITIONS)
        self.send([produce(MANY, index, batch(3)) for index in range(MANY_PARTITIONS)])
        self.send([produce("dense", index, batch(8_000)) for index in range(100)])
        self.send([produce("packed", 0, millions_of_records())])
        self.send([produce("packed", 1, empty_members())])

    def create(self, topics: dict[str, int], configs: dict[str, str] | None = None) -> None:
        response = self.call(ApiKey.CREATE_TOPICS, 7, creation(topics, configs))
        assert {topic.error_code for topic in response.topics} == {0}

    def wait_until_open(self, topic: str, count: int) -> None:
        """Wait for the last log, as a turn creates only a few."""
        while True:
            response = self.call(ApiKey.LIST_OFFSETS, 7, offsets(topic, -1, [count - 1]))
            if not response.topics[0].partitions[0].error_code:
                return
            time.sleep(0.05)

    def commit_groups(self) -> None:
        """Commit an offset in each of 10,000 groups, for a topic that is not deleted."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group-0"])
        while self.call(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0].error_code:
            time.sleep(0.05)
        part = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        topics = [OffsetCommitRequestTopic(name="demo", partitions=[part])]

        def commit(number: int) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=f"group-{number}",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=topics,
            )

        while self.call(ApiKey.OFFSET_COMMIT, 8, commit(0)).topics[0].partitions[0].error_code:
            time.sleep(0.05)
        self.send([frame(ApiKey.OFFSET_COMMIT, 8, commit(number)) for number in range(10_000)])

    def add_idempotent_producers(self) -> None:
        """Produce from 200,000 idempotent producers; the next batch rolls a segment."""
        raws = (idempotent_batch(producer_id) for producer_id in range(200_000))
        self.send([produce("sequences", 0, raw) for raw in raws])
        change = AlterableConfig(name="segment.bytes", config_operation=0, value="1048576")
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name="sequences", configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        assert not self.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code

    # Cases ---------------------------------------------------------------------------------------

    def cases(self) -> Iterator[tuple[str, list[bytes]]]:
        yield from self.reading_cases()
        yield from self.changing_cases()

    def reading_cases(self) -> Iterator[tuple[str, list[bytes]]]:
        def by_time(topic: str, timestamp: int, indexes: list[int]) -> list[bytes]:
            return [frame(ApiKey.LIST_OFFSETS, 7, offsets(topic, timestamp, indexes))]

        yield "nothing", [REQUESTS["ApiVersions v3"]]
        yield "ListOffsets by time, 12 kB of 18.7 M records", by_time("packed", 1001, [0])
        yield "ListOffsets by time, 45,000 gzip members", by_time("packed", 1001, [1])
        yield "ListOffsets by time, 100 x 8,000 records", by_time("dense", 8_999, list(range(100)))
        every = list(range(MANY_PARTITIONS))
        yield "ListOffsets by time, 9,000 logs", by_time(MANY, 1_001, every)
        for count in (2_000, 5_000, MANY_PARTITIONS):
            yield f"Fetch of a record in each of {count:,} partitions", [fetch(count)]
        names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(500_000)]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        yield "Metadata of 500,000 names", [frame(ApiKey.METADATA, 12, request)]
        everything = frame(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        yield "Metadata of all", [everything]
        resources = [
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE,
                resource_name=f"single-{number}",
                configuration_keys=None,
            )
            for number in range(SINGLES)
        ]
        described = DescribeConfigsRequest(resources=resources)
        yield "DescribeConfigs of 1,000 topics", [frame(ApiKey.DESCRIBE_CONFIGS, 4, described)]
        sizes = frame(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
        yield "DescribeLogDirs of all", [sizes]

    def changing_cases(self) -> Iterator[tuple[str, list[bytes]]]:
        yield "Produce of 700,000 records, compacted", [produce("compacted", 0, small_records())]
        yield "DeleteRecords of 1,000 partitions", [record_deletion(0, 1_000)]
        yield "DeleteRecords of 8,000 partitions", [record_deletion(1_000, MANY_PARTITIONS)]
        self.commit_groups()
        yield "DeleteTopics of 500, 10,000 groups of others", [topic_deletion(500)]
        self.add_idempotent_producers()
        yield "a roll with 200,000 producers", [produce("sequences", 0, batch(1))]
        topic = frame(
            ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[MANY], timeout_ms=60_000)
        )
        yield "DeleteTopics of 9,000 partitions", [topic]
        made = frame(ApiKey.CREATE_TOPICS, 7, creation({"again": MANY_PARTITIONS}))
        yield "CreateTopics of 9,000 partitions", [made]


# Requests and batches ----------------------------------------------------------------------------


def receive(sock: Any) -> bytes:
    """Read one response, without its length."""
    size: int = struct.unpack(">i", exactly(sock, 4))[0]
    return exactly(sock, size)


def exactly(sock: Any, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the node has closed the connection")
        parts += part
    return bytes(parts)


def creation(topics: dict[str, int], configs: dict[str, str] | None = None) -> CreateTopicsRequest:
    topic_configs = [
        CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
    ]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=1,
                assignments=(),
                configs=topic_configs,
            )
            for name, count in topics.items()
        ]
    )


def produce(topic: str, index: int, raw: bytes) -> bytes:
    parts = [PartitionProduceData(index=index, records=raw)]
    topics = [TopicProduceData(name=topic, partition_data=parts)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
    return frame(ApiKey.PRODUCE, 9, request)


def offsets(topic: str, timestamp: int, indexes: list[int]) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=parts)]
    )


def fetch(count: int) -> bytes:
    parts = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    topics = [FetchTopic(topic=MANY, partitions=parts)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics)
    return frame(ApiKey.FETCH, 12, request)


def record_deletion(first: int, end: int) -> bytes:
    parts = [
        DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(first, end)
    ]
    topics = [DeleteRecordsTopic(name=MANY, partitions=parts)]
    return frame(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=60_000))


def topic_deletion(count: int) -> bytes:
    names = [f"single-{number}" for number in range(count)]
    return frame(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=names, timeout_ms=60_000))


def batch(count: int) -> bytes:
    """A batch of records a millisecond apart, from timestamp 1000 on."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1000 + number, None, b"value")
    return builder.build()


def small_records() -> bytes:
    """A batch of 700,000 records, about the most that are accepted."""
    builder = BatchBuilder(codec=ZSTD)
    for _ in range(700_000):
        builder.append(1000, b"k", None)
    return builder.build()


def idempotent_batch(producer_id: int) -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    builder.append(1000, None, b"value")
    return builder.build()


def millions_of_records() -> bytes:
    """A batch of 18.7 million equal records, with a later max timestamp in its header."""
    record = batch(1)[HEADER_SIZE:]
    return batch_with_header(ZSTD, 18_700_000, bytes(cramjam.zstd.compress(record * 18_700_000, 3)))


def empty_members() -> bytes:
    """A batch that claims two records, compressed to 45,000 gzip members that are all empty."""
    return batch_with_header(GZIP, 2, gzip.compress(b"", mtime=0) * 45_000)


def batch_with_header(codec: int, count: int, payload: bytes) -> bytes:
    """A batch whose header claims this codec and count; the node checks only the header."""
    header = bytearray(batch(1)[:HEADER_SIZE])
    raw = header + payload
    struct.pack_into(">i", raw, 8, len(raw) - LENGTH_OVERHEAD)
    struct.pack_into(">hi", raw, CRC_START, codec, count - 1)
    struct.pack_into(">q", raw, MAX_TIMESTAMP_START, 1001)
    struct.pack_into(">i", raw, HEADER_SIZE - 4, count)
    struct.pack_into(">I", raw, CRC_START - 4, crc32c(memoryview(raw)[CRC_START:]))
    return bytes(raw)
