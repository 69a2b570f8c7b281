"""Built batches have the bytes that Apache Kafka's own builder writes (see JavaBatches.java)."""

from __future__ import annotations

import os

import pytest

from kraftlog.records.builder import BatchBuilder, build_batch, build_empty_batch
from kraftlog.records.compression import CODEC_NAMES, GZIP
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.records.record import Record
from tests.records.end_markers import build_end_marker

with open(os.path.join(os.path.dirname(__file__), "java_batches.txt")) as lines:
    JAVA = {name: bytes.fromhex(digits) for name, digits in map(str.split, lines)}


def builder_with_forty_records(codec: int) -> BatchBuilder:
    builder = BatchBuilder(codec=codec)
    for number in range(40):
        builder.append(1000 + 7 * number, b"key%d" % number, b"value %d" % number * number)
    return builder


def test_nulls_and_headers_are_encoded() -> None:
    builder = BatchBuilder()
    builder.append(1000, None, None)
    builder.append(900, b"", b"")
    builder.append(5000000000, b"k", b"v" * 200, [("h", None), ("ü", b"\1"), ("", b"")])
    assert builder.build() == JAVA["nulls_and_headers"]
    assert builder.size == len(JAVA["nulls_and_headers"])


def test_transactional_batches_are_built() -> None:
    records = [Record(2**40, 1, b"a", b"b"), Record(2**40 + 1, 2, b"c", b"d")]
    batch = build_batch(
        records,
        leader_epoch=9,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        is_transactional=True,
    )
    assert batch == JAVA["transactional"]


def test_log_append_time_is_built() -> None:
    builder = BatchBuilder(base_offset=5, leader_epoch=2, append_time_ms=123456)
    builder.append(1, None, b"b")
    builder.append(9, None, b"d")
    assert builder.build() == JAVA["append_time"]
    assert [record.timestamp_ms for record in read_records(builder.build())] == [123456, 123456]


def test_records_without_timestamps_are_built() -> None:
    assert build_batch([Record(0, -1, None, b"b")]) == JAVA["no_timestamp"]


def test_offset_gaps_are_built() -> None:
    builder = BatchBuilder(base_offset=10, leader_epoch=4)
    assert builder.append(50, b"x", None, offset=12) == 12
    assert builder.append(40, b"y", b"z", offset=400) == 400
    assert builder.build(last_offset=500) == JAVA["gaps"]
    assert read_header(builder.build()).last_offset == 400


def test_the_delete_horizon_is_the_base_timestamp() -> None:
    builder = BatchBuilder(base_offset=3, leader_epoch=4, delete_horizon_ms=100000)
    builder.append(50, b"x", None)
    assert builder.build() == JAVA["delete_horizon"]
    assert next(read_records(builder.build())).timestamp_ms == 50
    assert read_header(builder.build()).delete_horizon_ms == 100000
    assert read_header(JAVA["gaps"]).delete_horizon_ms is None


def test_empty_batches_are_built() -> None:
    batch = build_empty_batch(
        100,
        120,
        leader_epoch=6,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        timestamp_ms=4444,
        is_transactional=True,
    )
    assert batch == JAVA["empty"]
    assert list(read_records(batch)) == []


@pytest.mark.parametrize("name", ["commit", "abort"])
def test_transaction_markers_are_built(name: str) -> None:
    batch = build_end_marker(
        commit=name == "commit",
        producer_id=77,
        producer_epoch=3,
        coordinator_epoch=21,
        timestamp_ms=5555,
        base_offset=30,
        leader_epoch=8,
    )
    assert batch == JAVA[name]


@pytest.mark.parametrize("codec", range(len(CODEC_NAMES)), ids=CODEC_NAMES)
def test_compressed_batches_have_the_records_of_kafkas(codec: int) -> None:
    """The compressed bytes may differ."""
    kafkas = JAVA[f"packed_{CODEC_NAMES[codec]}"]
    ours = builder_with_forty_records(codec).build()
    assert list(read_records(kafkas)) == list(read_records(ours))
    assert read_header(ours).replace(crc=0, batch_length=0) == read_header(kafkas).replace(
        crc=0, batch_length=0
    )
    if codec == 0:
        assert ours == kafkas


def test_a_higher_level_compresses_more() -> None:
    sizes = []
    for level in (1, 9):
        builder = BatchBuilder(codec=GZIP, level=level)
        for number in range(200):
            builder.append(number, b"%d" % (number * number), b"value %d" % number)
        sizes.append(len(builder.build()))
    assert sizes[0] > sizes[1]


def test_invalid_batches_are_not_built() -> None:
    with pytest.raises(ValueError, match="needs a producer id"):
        BatchBuilder(is_transactional=True)
    builder = BatchBuilder(base_offset=5)
    with pytest.raises(ValueError, match="build_empty_batch"):
        builder.build()
    builder.append(1, None, None, offset=7)
    with pytest.raises(ValueError, match="offset 7 after offset 7"):
        builder.append(1, None, None, offset=7)
    with pytest.raises(ValueError, match="last offset 6 before"):
        builder.build(last_offset=6)
    assert builder.record_count == 1
