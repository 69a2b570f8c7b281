"""Topic configs that affect producers, set at creation and changed later."""

from __future__ import annotations

import struct

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraftlog.records.crc import crc32c
from kraftlog.records.header import CRC_START, read_checked_header
from kraftlog.records.reader import check_crc, read_records
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata_records import PartitionRecord
from tests.node.frame_client import FrameClient, configured_host, make_host, set_config
from tests.node.test_producers import Writer
from tests.node.test_requests import batch, fetch, fetched_partition, produce, produce_result


def test_max_message_bytes_of_the_topic_limits_batches() -> None:
    host = configured_host(max_message_bytes=200)
    writer = Writer(host)
    assert writer.write(batch(b"x" * 100)) == (0, 0)
    assert writer.write(batch(b"x" * 200)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    set_config(host, TOPIC, "demo", "max.message.bytes", 500)
    assert writer.write(batch(b"x" * 200)) == (0, 1)


def test_broker_settings_are_the_defaults_of_topics() -> None:
    host = make_host(demo=1)
    writer = Writer(host)
    assert writer.write(batch(b"x" * 200)) == (0, 0)
    set_config(host, BROKER, "", "message.max.bytes", 150)
    assert writer.write(batch(b"x" * 200)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    set_config(host, TOPIC, "demo", "max.message.bytes", 500)
    assert writer.write(batch(b"x" * 200)) == (0, 1)


def test_topic_settings_survive_a_restart() -> None:
    first = configured_host(max_message_bytes=200)
    first.runner.close()
    writer = Writer(make_host(first.files))
    assert writer.write(batch(b"x" * 200)) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_timestamps_outside_the_bounds_are_refused() -> None:
    host = configured_host(
        message_timestamp_before_max_ms=10_000, message_timestamp_after_max_ms=5_000
    )
    host.pass_time(100_000)
    writer = Writer(host)
    for timestamp, code in (
        (89_999, ErrorCode.INVALID_TIMESTAMP),
        (90_000, ErrorCode.NONE),
        (105_000, ErrorCode.NONE),
        (105_001, ErrorCode.INVALID_TIMESTAMP),
    ):
        assert writer.write(batch(b"x", timestamp=timestamp))[0] == code


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_log_append_time_sets_timestamps(codec: int) -> None:
    host = configured_host(message_timestamp_type="LogAppendTime")
    host.pass_time(5000)
    builder = BatchBuilder(codec=codec)
    for timestamp in (1, 2):
        builder.append(timestamp, None, b"x")
    client = FrameClient(host)
    result = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(builder.build())))
    assert (result.error_code, result.log_append_time_ms) == (0, 5000)
    raw = bytes(fetched_partition(client.ask(ApiKey.FETCH, 12, fetch(0))).records)
    check_crc(raw, read_checked_header(raw))
    assert [record.timestamp_ms for record in read_records(raw)] == [5000, 5000]


@pytest.mark.parametrize("stored_codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("sent_codec", [NONE, GZIP, LZ4])
def test_compression_type_recompresses_batches(stored_codec: int, sent_codec: int) -> None:
    names = {NONE: "uncompressed", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
    writer = Writer(configured_host(compression_type=names[stored_codec]))
    values = [b"again and again " * 20, b"and more"]
    builder = BatchBuilder(codec=sent_codec, producer_id=7, producer_epoch=0, base_sequence=0)
    for value in values:
        builder.append(1000, b"key", value)
    raw = builder.build()
    assert [writer.write(raw), writer.write(raw)] == [(0, 0), (0, 0)]
    stored = bytes(fetched_partition(writer.ask(ApiKey.FETCH, 12, fetch(0))).records)
    header = read_checked_header(stored)
    check_crc(stored, header)
    assert (header.codec, header.producer_id, header.size) == (stored_codec, 7, len(stored))
    assert [record.value for record in read_records(stored)] == values


def test_a_batch_that_cannot_be_decompressed_is_refused() -> None:
    raw = bytearray(batch(b"no gzip"))
    raw[CRC_START + 1] |= GZIP
    struct.pack_into(">I", raw, CRC_START - 4, crc32c(memoryview(raw)[CRC_START:]))
    writer = Writer(configured_host(compression_type="zstd"))
    assert writer.write(bytes(raw)) == (ErrorCode.INVALID_RECORD, -1)


def test_a_batch_too_large_after_recompression_is_refused() -> None:
    builder = BatchBuilder(codec=GZIP)
    builder.append(1000, None, b"x" * 5000)
    writer = Writer(configured_host(compression_type="uncompressed", max_message_bytes=1000))
    assert writer.write(builder.build()) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_a_compacted_topic_refuses_records_without_keys() -> None:
    writer = Writer(configured_host(cleanup_policy="compact"))
    assert writer.write(batch(b"no key")) == (ErrorCode.INVALID_RECORD, -1)
    builder = BatchBuilder()
    builder.append(1000, b"key", None)
    assert writer.write(builder.build()) == (0, 0)


def test_the_response_lists_the_records_without_keys() -> None:
    """A client can report them, and send the others again."""
    client = FrameClient(configured_host(cleanup_policy="compact"))
    builder = BatchBuilder()
    for key in (b"a", None, b"b", None):
        builder.append(1000, key, b"x")
    raw = builder.build()
    result = produce_result(client.ask(ApiKey.PRODUCE, 9, produce(raw)))
    reason = "a record of a compacted topic must have a key"
    assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert result.error_message == f"2 of 4 records are refused: {reason}"
    assert [
        (error.batch_index, error.batch_index_error_message) for error in result.record_errors
    ] == [
        (1, reason),
        (3, reason),
    ]
    result = produce_result(client.ask(ApiKey.PRODUCE, 7, produce(raw)))
    assert (result.error_code, list(result.record_errors)) == (ErrorCode.INVALID_RECORD, [])


def test_acks_all_needs_min_insync_replicas() -> None:
    """A partition with fewer replicas than min.insync.replicas needs all of its replicas."""
    host = configured_host(min_insync_replicas=2)
    writer = Writer(host)
    assert writer.write(batch(b"alone")) == (0, 0)
    [key] = host.node.image.partitions
    replica_2_outside_isr = PartitionRecord(
        partition_id=0,
        topic_id=key[0],
        replicas=(1, 2),
        isr=(1,),
        removing_replicas=(),
        adding_replicas=(),
        leader=1,
        leader_epoch=1,
    )
    host.node.replay([replica_2_outside_isr], 0)
    assert writer.write(batch(b"x")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert writer.write(batch(b"x"), acks=1) == (0, 1)
    set_config(host, TOPIC, "demo", "min.insync.replicas", 1)
    assert writer.write(batch(b"x")) == (0, 2)
