"""Messages of the formats v0 and v1 become batches with the same records."""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.columns import decode_batches
from kraftlog.records.compression import GZIP, LZ4, SNAPPY, ZSTD, UnsupportedCodecError, compress
from kraftlog.records.header import TIMESTAMP_TYPE_BIT
from kraftlog.records.old_formats import in_current_format
from kraftlog.records.reader import read_records
from kraftlog.records.record import Record
from kraftlog.records.walk import walk

if TYPE_CHECKING:
    from kraftlog.types import Buffer

with open(os.path.join(os.path.dirname(__file__), "java_messages.txt")) as lines:
    JAVA = {name: bytes.fromhex(digits) for name, digits in map(str.split, lines)}

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def message(
    offset: int, value: bytes | None, *, magic: int = 1, attributes: int = 0, timestamp: int = 7
) -> bytes:
    front = struct.pack(">bbq", magic, attributes, timestamp)[: 10 if magic else 2]
    rest = struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    body = front + rest
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(offset: int, codec: int, *inner: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    packed = compress(codec, b"".join(inner))
    return message(offset, packed, magic=magic, attributes=attributes | codec, timestamp=99)


def batch(offset: int) -> bytes:
    builder = BatchBuilder(base_offset=offset)
    builder.append(1, b"key", b"new")
    return builder.build()


def records_in(data: Buffer) -> list[Record]:
    """The records of all batches, which the column decoder has to find as well."""
    records = [r for position, _ in walk(data) for r in read_records(data, position)]
    columns = decode_batches(data)
    assert columns.offsets.tolist() == [each.offset for each in records]
    assert columns.timestamps.tolist() == [each.timestamp_ms for each in records]
    return records


def converted(data: bytes, **limits: int) -> list[Record]:
    return records_in(in_current_format(data, **limits))


def values_in(data: bytes, **limits: int) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in converted(data, **limits)]


@pytest.mark.parametrize("name", JAVA)
def test_messages_that_kafka_wrote_are_read(name: str) -> None:
    """With v0, lz4 has the wrong checksum that Kafka's clients wrote until 0.9."""
    times = [50, 40, 60]
    if name.startswith("v0"):
        times = [-1] * 3
    elif "append_time" in name:
        times = [123456] * 3
    data = in_current_format(JAVA[name])
    assert records_in(data) == [
        Record(1000, times[0], None, b"first"),
        Record(1001, times[1], b"key", None),
        Record(1007, times[2], b"key", b"value" * 20),
    ]
    types = {bool(fields[5] & TIMESTAMP_TYPE_BIT) for _, fields in walk(data)}
    assert types == {"append_time" in name}


@given(
    magic=st.integers(0, 1),
    codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]),
    rows=st.lists(
        st.tuples(
            st.integers(1, 1 << 33),
            st.one_of(st.integers(LEAST, MOST), st.integers(0, 9)),
            st.none() | st.binary(max_size=9),
            st.none() | st.binary(max_size=9),
        ),
        min_size=1,
    ),
    cut=st.integers(0, 30),
)
def test_messages_of_another_builder_are_read(
    magic: int, codec: int, rows: list[tuple[int, int, bytes | None, bytes | None]], cut: int
) -> None:
    """Also if a partial message follows them, as at the end of a fetch response."""
    if codec == LZ4 and magic == 0:
        codec = GZIP  # kafka-python needs another package for it
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    expected = []
    offset = 0
    for step, time, key, value in rows:
        offset += step
        builder.append(offset, time, key, value)
        expected.append(Record(offset, time if magic else -1, key, value))
    data = bytes(builder.build())
    if codec:  # a producer leaves 0 as the offset of a wrapper, and the broker writes it
        data = struct.pack(">q", offset) + data[8:]
    assert converted(data + message(offset + 1, bytes(20))[:cut]) == expected


def test_current_batches_are_returned_as_they_are() -> None:
    data = batch(1) + batch(2)[:-1]
    assert in_current_format(data) is data
    assert in_current_format(b"") == b""


def test_batches_may_follow_messages() -> None:
    data = message(3, b"a", magic=0) + message(4, b"b") + batch(5) + message(6, b"c")
    assert values_in(data) == [(3, b"a"), (4, b"b"), (5, b"new"), (6, b"c")]


def test_messages_with_the_brokers_time_keep_each_its_own() -> None:
    data = b"".join(
        message(each, b"", attributes=TIMESTAMP_TYPE_BIT, timestamp=each) for each in (1, 2)
    )
    assert [each.timestamp_ms for each in converted(data)] == [1, 2]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (wrapper(9, GZIP, message(0, b"a"), message(3, b"b")), [(6, b"a"), (9, b"b")]),
        (wrapper(0, GZIP, message(0, b"a"), message(1, b"b")), [(0, b"a"), (1, b"b")]),
        (wrapper(9, GZIP, message(8, b"a"), message(9, b"b"), magic=0), [(8, b"a"), (9, b"b")]),
        (wrapper(9, GZIP, message(8, b"a", magic=0), message(9, b"b")), [(8, b"a"), (9, b"b")]),
        (wrapper(9, GZIP, message(0, b"a"), message(1, b"b")[:-1]), [(9, b"a")]),
    ],
    ids=["relative", "librdkafka's", "absolute", "v0 in v1", "partial"],
)
def test_offsets_in_a_wrapper(data: bytes, expected: list[tuple[int, bytes]]) -> None:
    """As Kafka's consumer reads them."""
    assert values_in(data) == expected


def test_a_response_ends_where_wrappers_decompress_to_too_much() -> None:
    """One wrapper is always read; the position of a consumer is then before the next."""
    data = b"".join(wrapper(n, GZIP, message(0, bytes(500))) for n in range(1, 9))
    assert [offset for offset, _ in values_in(data, max_size=1200)] == [1, 2, 3]
    assert [offset for offset, _ in values_in(data + message(9, b""), max_size=600)] == [1, 2]
    with pytest.raises(CorruptBatchError, match="gzip data of more than 300 bytes"):
        values_in(data, max_size=300)


SOUND = message(1, b"value")
WRONG = {
    "a bit": (SOUND[:-1] + b"V", "at offset 1: checksum 0x.*, computed 0x"),
    "a negative offset": (message(-1, b""), "at offset -1: an invalid offset"),
    "offsets descend": (SOUND + message(1, b""), "at offset 1: it follows offset 1"),
    "a small size": (SOUND + struct.pack(">qi", 2, 5) + bytes(9), "at offset 2: a size of 5"),
    "zstd": (wrapper(1, ZSTD, SOUND), "at offset 1: it is compressed, with zstd"),
    "no value": (message(1, None, attributes=GZIP), "at offset 1: it is compressed, with a null"),
    "nothing in it": (wrapper(1, GZIP), "at offset 1: it is compressed, with no message in it"),
    "a wrapper in it": (
        wrapper(1, GZIP, wrapper(0, GZIP, SOUND)),
        "at offset 1: a compressed message in a compressed message",
    ),
    "a batch in it": (wrapper(1, GZIP, batch(0)), "at offset 1: a batch in a compressed message"),
    "offsets in it": (wrapper(1, GZIP, message(2, b"")), "at offset 1: offset 2 in it is after"),
    "a bit in it": (wrapper(1, GZIP, SOUND[:-1] + b"V"), "at offset 1: checksum"),
    "not gzip": (message(1, b"value", attributes=GZIP), "gzip data can't be decompressed"),
    "not lz4": (message(1, b"val", magic=0, attributes=LZ4), "lz4 data can't be decompressed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_messages_are_named(name: str) -> None:
    data, error = WRONG[name]
    with pytest.raises(CorruptBatchError, match=error):
        in_current_format(data)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedCodecError, match="codec 7"):
        in_current_format(message(1, b"value", attributes=7))


def test_sizes_beyond_a_message_are_refused() -> None:
    """A checksum protects from accidents, not from a sender that computes it."""
    for at, size in ((26, -2), (26, 99), (30, -2), (30, 99), (30, 3)):  # key's and value's
        body = bytearray(message(1, b"value"))
        struct.pack_into(">i", body, at, size)
        struct.pack_into(">I", body, 12, zlib.crc32(body[16:]))
        with pytest.raises(CorruptBatchError, match="message at offset 1: "):
            in_current_format(bytes(body))


@given(st.binary(max_size=80), st.integers(0, 1), st.sampled_from([0, GZIP, SNAPPY, LZ4]))
def test_hostile_messages_end_in_an_error_of_ours(rest: bytes, magic: int, codec: int) -> None:
    """The class of every error is `CorruptBatchError`; no length is trusted."""
    body = bytes([magic, codec]) + rest
    data = struct.pack(">qiI", 1, 4 + len(body), zlib.crc32(body)) + body
    for each in (data, message(1, rest, magic=magic, attributes=codec)):
        try:
            converted(each)
        except CorruptBatchError:
            continue
