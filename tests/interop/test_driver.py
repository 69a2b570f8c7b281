"""The JVM driver of these tests: Kafka's tools, messages and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka.record import MemoryRecords

from tests.interop.driver import Batch, DriverError, Record
from tests.interop.kafka_jars import java_version

if TYPE_CHECKING:
    from tests.interop.driver import Driver

TOOLS = "org.apache.kafka.tools."
#: Tools that other tests use, each with the exit code and a word of its `--help`.
HELP = {
    "kafka.tools.StorageTool": (0, "random-uuid"),
    TOOLS + "BrokerApiVersionsCommand": (1, "--bootstrap-server"),
    TOOLS + "ClusterTool": (1, "unregister"),
    TOOLS + "ConfigCommand": (1, "--entity-type"),
    TOOLS + "ConsoleProducer": (1, "--reader-property"),
    TOOLS + "ConsumerPerformance": (1, "--bootstrap-server"),
    TOOLS + "DeleteRecordsCommand": (1, "--offset-json-file"),
    TOOLS + "DumpLogSegments": (1, "--cluster-metadata-decoder"),
    TOOLS + "FeatureCommand": (0, "upgrade"),
    TOOLS + "GetOffsetShell": (1, "--topic-partitions"),
    TOOLS + "LogDirsCommand": (1, "--broker-list"),
    TOOLS + "MetadataQuorumCommand": (0, "describe"),
    TOOLS + "ProducerPerformance": (1, "--throughput"),
    TOOLS + "TopicCommand": (1, "--under-replicated-partitions"),
    TOOLS + "consumer.ConsoleConsumer": (1, "--from-beginning"),
    TOOLS + "consumer.group.ConsumerGroupCommand": (1, "--reset-offsets"),
    TOOLS + "reassign.ReassignPartitionsCommand": (1, "--reassignment-json-file"),
}


@pytest.mark.parametrize("tool", HELP)
def test_tools_show_their_help(jvm: Driver, tool: str) -> None:
    result = jvm.tool(tool, "--help")
    exit_code, word = HELP[tool]
    assert word in result.stdout + result.stderr
    assert (result.exit_code, result.timed_out, result.leaked) == (exit_code, False, ())


def test_a_failing_tool_shows_its_error(jvm: Driver) -> None:
    result = jvm.tool(TOOLS + "DumpLogSegments", "--files", "nowhere/00000000000000000000.log")
    assert result.exit_code == 1
    assert "NoSuchFileException" in result.stderr
    with pytest.raises(AssertionError, match="NoSuchFileException"):
        result.ok()


def test_an_unknown_class_fails_like_java_does(jvm: Driver) -> None:
    assert "ClassNotFoundException" in jvm.tool(TOOLS + "NoSuchTool").stderr


def test_a_running_tool_can_be_stopped(jvm: Driver) -> None:
    # nothing listens on port 1, so the consumer would retry for ever
    consumer = jvm.start_tool(
        TOOLS + "consumer.ConsoleConsumer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"
    )
    help_in_between = jvm.tool(TOOLS + "TopicCommand", "--help")
    result = consumer.stop()
    assert "127.0.0.1" not in help_in_between.stderr
    assert (result.exit_code, result.timed_out, result.leaked) == (130, False, ())


def test_a_tool_that_hangs_is_stopped_at_its_time_limit(jvm: Driver) -> None:
    result = jvm.tool(
        TOOLS + "TopicCommand", "--list", "--bootstrap-server", "127.0.0.1:1", seconds=0.5
    )
    assert result.timed_out
    assert result.leaked == ()


def test_stdin_reaches_the_tool(jvm: Driver) -> None:
    # without a broker the line cannot be sent; the error shows that it was read
    result = jvm.tool(
        TOOLS + "ConsoleProducer",
        *("--topic", "t", "--bootstrap-server", "127.0.0.1:1"),
        *("--command-property", "max.block.ms=100"),
        stdin=b"first\n",
    )
    assert "TimeoutException" in result.stderr


def test_a_request_is_decoded_and_written_again(jvm: Driver) -> None:
    data = b"\x06kafka\x041.0\x00"
    by_name, by_key = jvm.decode([("ApiVersionsRequest", 3, data), ("request:18", 3, data + b"!")])
    assert by_name.json == {"clientSoftwareName": "kafka", "clientSoftwareVersion": "1.0"}
    assert (by_name.encoded_again, by_name.left) == (data, 0)
    assert (by_key.json, by_key.encoded_again, by_key.left) == (by_name.json, data, 1)
    assert jvm.encode([("request:18", 3, by_name.json)]) == [data]


TOPIC_ID = bytes(range(16))


def test_a_metadata_record_is_decoded_with_and_without_its_frame(jvm: Driver) -> None:
    body = b"\x02t" + TOPIC_ID + b"\x00"
    frame = b"\x01\x02\x00"  # frame version, API key of TopicRecord, its version
    bare, framed = jvm.decode([("TopicRecord", 0, body), ("metadata", 0, frame + body)])
    assert bare.json == {"name": "t", "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    assert framed.json == {"type": "TOPIC_RECORD", "apiKey": 2, "version": 0, "data": bare.json}
    assert (bare.encoded_again, framed.encoded_again) == (body, frame + body)
    assert jvm.encode([("metadata", 0, framed.json)]) == [frame + body]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("RequestHeader", 2),
        ("ResponseHeader", 1),
        ("KRaftVersionRecord", 0),
        ("VotersRecord", 0),
        ("ConsumerProtocolSubscription", 3),
        ("ConsumerProtocolAssignment", 3),
        ("OffsetCommitKey", 1),
        ("GroupMetadataValue", 3),
        ("TransactionLogValue", 1),
        ("ProducerSnapshot", 1),
        ("QuorumStateData", 1),
    ],
)
def test_classes_from_every_jar_are_found(jvm: Driver, name: str, version: int) -> None:
    empty, unknown = jvm.decode([(name, version, b""), (name + "s", version, b"")])
    assert "BufferUnderflowException" in empty.error
    assert "no message class" in unknown.error


def test_an_error_affects_only_its_own_item(jvm: Driver) -> None:
    valid = ("ApiVersionsRequest", 0, b"")
    decoded = jvm.decode([valid, ("ApiVersionsRequest", 99, b""), valid])
    assert [bool(each.error) for each in decoded] == [False, True, False]
    with pytest.raises(DriverError, match="1 of 1 not encoded"):
        jvm.encode([("ApiVersionsRequest", 3, {})])


def test_twenty_thousand_messages_are_decoded_in_one_call(jvm: Driver) -> None:
    data = b"\x02t" + TOPIC_ID + b"\x00"
    decoded = jvm.decode([("TopicRecord", 0, data)] * 20_000)
    assert len(decoded) == 20_000
    assert {each.encoded_again for each in decoded} == {data}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_built_and_parsed(jvm: Driver, codec: str) -> None:
    records = [
        Record(value=b"v" * 200, key=b"k", timestamp=5, headers=[("h", b"x"), ("n", None)]),
        Record(value=None, timestamp=7),
    ]
    batch = Batch(
        records, codec, base_offset=10, producer_id=3, producer_epoch=1, base_sequence=4,
        transactional=True, leader_epoch=2,
    )  # fmt: skip
    [data] = jvm.build([batch])
    [parsed] = jvm.parse([data])
    [read] = parsed["batches"]
    assert parsed["left"] == 0
    assert (read["codec"], read["base_offset"], read["last_offset"]) == (codec, 10, 11)
    assert (read["producer_id"], read["producer_epoch"], read["base_sequence"]) == (3, 1, 4)
    assert (read["transactional"], read["control"], read["leader_epoch"]) == (True, False, 2)
    first, second = read["records"]
    assert (first["key"], first["value"]) == (b"k", b"v" * 200)
    assert first["headers"] == [("h", b"x"), ("n", None)]
    assert (second["key"], second["value"], second["timestamp"]) == (None, None, 7)


@pytest.mark.parametrize(
    "codec", ["none", "gzip"]
)  # codecs that kafka-python supports without packages
def test_kafka_python_reads_a_batch_that_kafka_built(jvm: Driver, codec: str) -> None:
    sent = [Record(b"a" * 100, key=b"k", timestamp=5, headers=[("h", b"x")]), Record(None)]
    [data] = jvm.build([Batch(sent, codec, base_offset=10)])
    read = list(MemoryRecords(data).next_batch())
    assert [(r.offset, r.key, r.value) for r in read] == [(10, b"k", b"a" * 100), (11, None, None)]
    assert (read[0].timestamp, read[0].headers) == (5, [("h", b"x")])


def test_a_control_batch_is_built_and_parsed(jvm: Driver) -> None:
    commit = Record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7")
    batch = Batch([commit], control=True, transactional=True, producer_id=1, producer_epoch=0)
    [parsed] = jvm.parse(jvm.build([batch]))
    [read] = parsed["batches"]
    assert read["control"]
    assert read["records"][0]["key"] == commit.key


def test_a_flipped_bit_and_a_partial_batch_are_reported(jvm: Driver) -> None:
    [data] = jvm.build([Batch([Record(b"v")])])
    broken = data[:-1] + bytes([data[-1] ^ 1])
    flipped, partial = jvm.parse([broken, data + data[:20]])
    assert "CorruptRecordException" in flipped["error"]
    assert (len(partial["batches"]), partial["left"]) == (1, 20)


def test_the_java_version_is_parsed() -> None:
    assert java_version('openjdk version "21.0.2" 2024-01-16') == 21
    assert java_version('java version "1.8.0_392"') == 1  # Java 8: older than any accepted
    assert java_version("command not found") == 0
