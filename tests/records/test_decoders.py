"""All decoders return the same records: kraftlog's three, and those of two other clients.

The column decoder must refuse exactly the bytes that the plain reader refuses.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kraftlog.errors import CorruptBatchError
from kraftlog.records import arrow
from kraftlog.records.arrow import to_arrow
from kraftlog.records.builder import BatchBuilder, build_empty_batch, encode_record
from kraftlog.records.columns import RecordColumns, decode_batches, decode_payloads
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.crc import crc32c
from kraftlog.records.examine import examine_records
from kraftlog.records.header import BatchHeader, read_header, stamp
from kraftlog.records.reader import decode_records, read_records, records_payload
from kraftlog.records.record import Record
from kraftlog.records.varint import encode_varint
from kraftlog.records.walk import walk
from tests.records.end_markers import build_end_marker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

short_bytes = st.binary(max_size=200) | st.integers(120, 9000).map(bytes)
headers = st.lists(
    st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4
).map(tuple)
timestamps = st.integers(0, 2**62)


@st.composite
def batches(draw: Any) -> tuple[bytes, list[Record]]:
    """A batch and the records in it."""
    append_time = draw(st.none() | timestamps)
    builder = BatchBuilder(
        base_offset=draw(st.sampled_from([0, 17, 2**40])),
        codec=draw(st.integers(0, len(CODEC_NAMES) - 1)),
        append_time_ms=append_time,
        delete_horizon_ms=draw(st.none() | timestamps),
    )
    records = []
    for _ in range(draw(st.integers(1, 40))):
        time_ms = draw(timestamps)
        key, value = draw(st.none() | short_bytes), draw(st.none() | short_bytes)
        pairs = draw(headers)
        offset = builder.next_offset + draw(st.sampled_from([0, 0, 0, 1, 1000]))
        builder.append(time_ms, key, value, pairs, offset=offset)
        time_ms = time_ms if append_time is None else append_time
        records.append(Record(offset, time_ms, key, value, pairs))
    return builder.build(), records


def records_of(columns: RecordColumns) -> Iterator[Record]:
    def cut(start: int, length: int) -> bytes | None:
        return None if length < 0 else columns.payload[start : start + length]

    index = 0  # of the next header, over all records
    for number in range(len(columns)):
        pairs = []
        for _ in range(columns.header_counts[number]):
            name = cut(columns.header_key_starts[index], columns.header_key_lengths[index])
            value = cut(columns.header_value_starts[index], columns.header_value_lengths[index])
            assert name is not None
            pairs.append((name.decode("utf-8", "surrogateescape"), value))
            index += 1
        yield Record(
            int(columns.offsets[number]),
            int(columns.timestamps[number]),
            cut(columns.key_starts[number], columns.key_lengths[number]),
            cut(columns.value_starts[number], columns.value_lengths[number]),
            tuple(pairs),
        )


def records_by(buffer: bytes, reader: Any) -> list[Record]:
    """The records that the reader of another client returns; both readers have one interface."""
    records = []
    memory_records = reader(buffer)
    while (batch := memory_records.next_batch()) is not None:
        assert batch.validate_crc()
        records += [
            Record(
                r.offset,
                r.timestamp,
                None if r.key is None else bytes(r.key),
                None if r.value is None else bytes(r.value),
                tuple([(n, None if v is None else bytes(v)) for n, v in r.headers]),
            )
            for r in batch
        ]
    return records


def arrow_rows(columns: RecordColumns) -> list[dict[str, Any]]:
    table = to_arrow(columns)
    table.validate(full=True)
    table = table.set_column(1, "timestamp", table["timestamp"].cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def concatenated(parts: list[tuple[bytes, list[Record]]]) -> tuple[bytes, list[Record]]:
    """The batches in one log, with ascending offsets."""
    log = bytearray()
    expected = []
    next_offset = 0
    for batch, records in parts:
        header = read_header(batch)
        moved = next_offset - header.base_offset
        expected += [record.replace(offset=record.offset + moved) for record in records]
        log += batch
        stamp(log, len(log) - len(batch), next_offset, 3)
        next_offset += header.last_offset_delta + 1
    return bytes(log), expected


@settings(max_examples=50, deadline=None)
@given(parts=st.lists(batches(), min_size=1, max_size=3))
def test_all_decoders_return_the_same_records(parts: list[tuple[bytes, list[Record]]]) -> None:
    log, expected = concatenated(parts)
    plain = [record for position, _ in walk(log) for record in read_records(log, position)]
    assert plain == expected
    assert records_by(log, AiokafkaRecords) == expected
    assert records_by(log, KafkaPythonRecords) == expected
    columns = decode_batches(log)
    assert list(records_of(columns)) == expected
    assert arrow_rows(columns) == [
        {
            "offset": r.offset,
            "timestamp": r.timestamp_ms,
            "key": r.key,
            "value": r.value,
            "headers": [{"key": n, "value": v} for n, v in r.headers],
        }
        for r in expected
    ]


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(timestamps, st.none() | short_bytes, st.none() | short_bytes, headers),
        min_size=1,
        max_size=30,
    ),
    codec=st.sampled_from([0, 1, 2, 3, 4]),
    producer=st.sampled_from([(-1, -1, -1), (7, 2, 100)]),
)
def test_all_builders_build_the_same_records(
    rows: list[Any], codec: int, producer: tuple[int, int, int]
) -> None:
    producer_id, producer_epoch, base_sequence = producer
    ours = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=producer_id >= 0,
    )
    others = [
        builder(2, codec, int(producer_id >= 0), *producer, 1 << 30)
        for builder in (AiokafkaBuilder, KafkaPythonBuilder)
    ]
    for number, (time_ms, key, value, pairs) in enumerate(rows):
        ours.append(time_ms, key, value, pairs)
        for other in others:
            assert other.append(number, time_ms, key, value, list(pairs))
    batch = ours.build()
    for other in others:
        other_batch = bytes(other.build())
        if read_header(other_batch).codec == 0 == codec:
            # Clients may set any leader epoch; the broker overwrites it.
            assert other_batch[:12] + batch[12:16] + other_batch[16:] == batch
        assert list(read_records(other_batch)) == list(read_records(batch))


def records_or_none(decode: Any) -> list[Any] | None:
    """The decoded records, or None if they are refused; any other exception is a bug."""
    try:
        return list(decode())
    except CorruptBatchError:
        return None


def decoded_by_all(header: BatchHeader, payload: bytes) -> list[Record] | None:
    """Assert that kraftlog's decoders agree; return the records, or None if they refuse them."""
    plain = records_or_none(lambda: decode_records(header, payload))
    examined = records_or_none(lambda: examine_records(header, payload))
    assert examined == (
        None
        if plain is None
        else [(it.offset - header.base_offset, it.timestamp_ms, it.key is not None) for it in plain]
    )
    assert records_or_none(lambda: records_of(decode_payloads([header], [payload]))) == plain
    return plain


def header_of(count: int, last_delta: int | None = None) -> BatchHeader:
    delta = count - 1 if last_delta is None else last_delta
    return BatchHeader(0, 49, 0, 2, 0, 0, delta, 1000, 2000, -1, -1, -1, count)


@settings(max_examples=80, deadline=None)
@given(
    batch=batches(), changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3)
)
def test_decoders_agree_on_corrupt_batches(
    batch: tuple[bytes, list[Record]], changes: list[tuple[int, int]]
) -> None:
    header = read_header(batch[0])
    payload = bytearray(
        b"".join(
            encode_record(
                r.offset - header.base_offset, r.timestamp_ms % 5000, r.key, r.value, r.headers
            )
            for r in batch[1]
        )
    )
    for position, byte in changes:
        payload[position % len(payload)] = byte
    decoded_by_all(header, bytes(payload))


@settings(max_examples=150, deadline=None)
@given(payload=st.binary(max_size=120), count=st.integers(0, 12))
def test_decoders_agree_on_arbitrary_bytes(payload: bytes, count: int) -> None:
    decoded_by_all(header_of(count, 100), payload)


#: Runs of equal records: the size of their values, near where a length needs another byte, and
#: how many there are.
runs = st.lists(
    st.tuples(st.sampled_from([0, 1, 50, 51, 60, 100, 8180, 8200]), st.integers(1, 90)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(runs, min_size=1, max_size=2), position=st.integers(0), byte=st.integers(0, 255)
)
def test_decoders_agree_on_runs_of_equal_sizes(
    parts: list[list[tuple[int, int]]], position: int, byte: int
) -> None:
    headers, payloads = [], []
    for sizes in parts:
        builder = BatchBuilder()
        for size, count in sizes:
            for _ in range(count):
                builder.append(7, None, bytes(size))
        batch = builder.build()
        headers.append(read_header(batch))
        payloads.append(records_payload(batch, headers[-1]))
    decoded = list(records_of(decode_payloads(headers, payloads)))
    assert decoded == [
        record
        for header, payload in zip(headers, payloads, strict=True)
        for record in decode_records(header, payload)
    ]
    damaged = bytearray(payloads[0])
    damaged[position % len(damaged)] = byte
    decoded_by_all(headers[0], bytes(damaged))


def record_of(*fields: int | bytes) -> bytes:
    """A record of these numbers (as varints) and bytes, prefixed with its length."""
    body = b"\0" + b"".join([f if isinstance(f, bytes) else encode_varint(f) for f in fields])
    return encode_varint(len(body)) + body


GOOD = record_of(0, 0, 1, b"k", 1, b"v", 1, 1, b"h", 1, b"w")


@pytest.mark.parametrize(
    ("name", "payload", "header"),
    [
        ("nothing", b"", header_of(1)),
        ("a record too few", GOOD, header_of(2)),
        ("a record too many", GOOD + record_of(0, 1, -1, -1, 0), header_of(1)),
        ("a byte after the records", GOOD + b"\0", header_of(1)),
        ("a count beyond the bytes", GOOD, header_of(2**31 - 1)),
        ("size 0", encode_varint(0) + bytes(8), header_of(1)),
        ("size -1", encode_varint(-1) + bytes(8), header_of(1)),
        ("size of -2^31", encode_varint(-(2**31)) + bytes(8), header_of(1)),
        ("size beyond the end", encode_varint(2**31 - 1) + bytes(8), header_of(1)),
        ("size one too small", encode_varint(len(GOOD) - 2) + GOOD[1:], header_of(1)),
        ("size of six bytes", b"\x80\x80\x80\x80\x80\0" + bytes(8), header_of(1)),
        ("size over 32 bits", b"\x80\x80\x80\x80\x10" + bytes(8), header_of(1)),
        ("time of eleven bytes", record_of(b"\x80" * 10 + b"\0", 0, -1, -1, 0), header_of(1)),
        ("time over 64 bits", record_of(b"\x80" * 9 + b"\2", 0, -1, -1, 0), header_of(1)),
        ("offset outside", record_of(0, 1, -1, -1, 0), header_of(1)),
        ("offset before", record_of(0, -1, -1, -1, 0), header_of(1)),
        ("key beyond the record", record_of(0, 0, 9, b"k", -1, 0), header_of(1)),
        ("key of 2 GiB", record_of(0, 0, 2**31 - 1, b"k", -1, 0), header_of(1)),
        ("value beyond the record", record_of(0, 0, -1, 3, b"v", 0) + bytes(2), header_of(1)),
        ("no count of headers", record_of(0, 0, -1, 3, b"v"), header_of(1)),
        ("-1 headers", record_of(0, 0, -1, -1, -1), header_of(1)),
        ("2^31 headers", record_of(0, 0, -1, -1, 2**31 - 1), header_of(1)),
        ("a header too few", record_of(0, 0, -1, -1, 2, 0, -1), header_of(1)),
        ("a header too many", record_of(0, 0, -1, -1, 1, 0, -1, 0, -1), header_of(1)),
        ("a header without a name", record_of(0, 0, -1, -1, 1, -1, -1), header_of(1)),
        ("a name beyond the record", record_of(0, 0, -1, -1, 1, 99, b"n"), header_of(1)),
        ("a header of 2 GiB", record_of(0, 0, -1, -1, 1, 0, 2**31 - 1), header_of(1)),
        ("a header's number too long", record_of(0, 0, -1, -1, 1, b"\x80" * 6), header_of(1)),
    ],
)
def test_invalid_records_are_refused_by_all(name: str, payload: bytes, header: BatchHeader) -> None:
    assert decoded_by_all(header, payload) is None, name
    # With many records, numpy decodes headers in another way.
    others = b"".join([record_of(0, 0, -1, -1, 1, 0, -1) for _ in range(40)])
    among_others = header.replace(record_count=header.record_count + 40)
    assert decoded_by_all(among_others, others + payload) is None, name


def test_unusual_valid_records_are_accepted() -> None:
    """The records above are refused for their errors, not because they are unusual."""
    expected = Record(0, 1000, b"k", b"v", (("h", b"w"),))
    assert decoded_by_all(header_of(1), GOOD) == [expected]
    null = record_of(0, 0, -7, -(2**31), 1, 0, -3)
    assert decoded_by_all(header_of(1), null) == [Record(0, 1000, None, None, (("", None),))]
    columns = decode_payloads([header_of(1)], [null])
    lengths = (columns.key_lengths, columns.value_lengths, columns.header_value_lengths)
    assert [length.tolist() for length in lengths] == [[-1]] * 3
    assert decoded_by_all(header_of(0, 0), b"") == []
    wrapped = decoded_by_all(header_of(1), record_of(2**63 - 1, 0, -1, -1, 0))
    assert wrapped == [Record(0, 2**63 - 1 + 1000 - 2**64, None, None)]


def test_a_record_with_thousands_of_headers_is_read() -> None:
    pairs = tuple((f"h{number}", b"x") for number in range(5000))
    payload = encode_record(0, 0, None, None, pairs) + encode_record(1, 0, b"k", None, pairs[:3])
    records = decoded_by_all(header_of(2), payload)
    assert records is not None
    assert [len(record.headers) for record in records] == [5000, 3]


def test_invalid_utf8_in_names_can_be_written_back() -> None:
    payload = record_of(0, 0, -1, -1, 1, 2, b"\xff\xfe", -1)
    (record,) = decode_records(header_of(1), payload)
    assert encode_record(0, 0, None, None, record.headers) == payload
    assert arrow_rows(decode_payloads([header_of(1)], [payload]))[0]["headers"] == [
        {"key": "\ufffd\ufffd", "value": None}
    ]


def test_columns_omit_control_empty_and_partial_batches() -> None:
    data = BatchBuilder(base_offset=5)
    data.append(1, b"k", b"v")
    log = build_empty_batch(0, 4) + data.build()
    marker = build_end_marker(
        commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=2,
        base_offset=6,
    )
    later = BatchBuilder(base_offset=7)
    later.append(3, None, None)
    log += marker + later.build()
    assert decode_batches(log).offsets.tolist() == [5, 7]
    assert decode_batches(log[:-1]).offsets.tolist() == [5]
    assert decode_batches(log, with_control=True).offsets.tolist() == [5, 6, 7]
    assert to_arrow(decode_batches(log), with_headers=False).schema.names == [
        "offset",
        "timestamp",
        "key",
        "value",
    ]


def test_a_payload_beyond_arrows_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = decode_payloads([header_of(1)], [GOOD])
    monkeypatch.setattr(arrow, "MAX_PAYLOAD", len(GOOD) - 1)
    with pytest.raises(ValueError, match="fewer batches at a time"):
        to_arrow(columns)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"\xff\xfea", "\ufffd\ufffda"),
        (b"\xe2\x82a", "\ufffda"),
        (b"\xed\xa0\x80a", "\ufffda"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
    ],
)
def test_names_of_headers_are_read_as_in_java_if_not_utf8(name: bytes, text: str) -> None:
    """Parity with Spark's connector compares the same with Java itself."""
    builder = BatchBuilder()
    names = ["größe", name.decode("utf-8", "surrogateescape"), ""]
    builder.append(0, None, None, [(each, None) for each in names])
    columns = decode_batches(builder.build())
    [headers] = to_arrow(columns).column("headers").to_pylist()
    assert [each["key"] for each in headers] == ["größe", text, ""]


def test_an_empty_buffer_has_no_columns() -> None:
    assert len(decode_batches(b"")) == 0
    assert to_arrow(decode_batches(b"")).num_rows == 0


def test_a_wrong_crc_is_refused_unless_it_is_not_checked() -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"value")
    batch = builder.build()[:-2] + b"X\0"
    for decode in (read_records, decode_batches):
        with pytest.raises(CorruptBatchError, match="checksum"):
            decode(batch)
    assert [record.value for record in read_records(batch, with_crc=False)] == [b"valuX"]
    assert len(decode_batches(batch, with_crc=False)) == 1


def test_max_size_bounds_all_batches_together() -> None:
    log = b""
    for number in range(3):
        builder = BatchBuilder(base_offset=number, codec=1)
        builder.append(1, None, bytes(1000))
        log += builder.build()
    assert len(decode_batches(log, max_size=3100)) == 3
    with pytest.raises(CorruptBatchError, match="gzip data of more than"):
        decode_batches(log, max_size=2500)
    with pytest.raises(CorruptBatchError, match="gzip data of more than"):
        list(read_records(log, max_size=999))


@settings(max_examples=80, deadline=None)
@given(batch=batches(), position=st.integers(0), byte=st.integers(0, 255))
def test_corrupt_headers_raise_only_corrupt_batch_errors(
    batch: tuple[bytes, list[Record]], position: int, byte: int
) -> None:
    """The changed byte is in the header or in the records; the CRC is computed again."""
    changed = bytearray(batch[0])
    changed[position % len(changed)] = byte
    header = read_header(changed)
    end = min(max(header.size, 61), len(changed))
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:end]))
    plain = records_or_none(lambda: read_records(changed, max_size=1 << 20))
    fast = records_or_none(
        lambda: records_of(decode_batches(changed, with_control=True, max_size=1 << 20))
    )
    if header.size == len(changed):
        assert fast == plain
