"""Columns are encoded byte for byte as the builder encodes single records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraftlog.records.builder import BatchBuilder, wrap_records
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.encode_columns import (
    RECORD_OVERHEAD,
    HeaderColumn,
    concatenated_headers,
    encode_batches,
    encode_headers,
)
from kraftlog.records.header import HEADER_SIZE

#: Sizes of keys and values; above 63 and above 8191 the length needs another byte.
_SIZES = st.sampled_from([0, 1, 63, 64, 100, 8191, 8192])
_BYTES = st.binary(max_size=9) | _SIZES.map(bytes)
_NULLABLE = st.none() | _BYTES
_HEADERS = st.lists(st.tuples(st.text(max_size=70), _NULLABLE), max_size=3)
_TIMES = st.integers(-(2**40), 2**41) | st.sampled_from([-1, 0, 2**62])
_RECORDS = st.lists(st.tuples(_TIMES, _NULLABLE, _NULLABLE, _HEADERS), min_size=1, max_size=150)
_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _header_column(lists: list[list[tuple[str, bytes | None]]]) -> HeaderColumn:
    rows = [[{"key": name, "value": value} for name, value in pairs] for pairs in lists]
    return encode_headers(pa.array(rows, type=_PAIRS))


@given(records=_RECORDS, batch_size=st.integers(1, 150), without_headers=st.booleans())
@example(records=[(0, None, b"", [])], batch_size=1, without_headers=True)
def test_batches_equal_those_of_the_builder(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    batch_size: int,
    without_headers: bool,
) -> None:
    times, keys, values, headers = zip(*records, strict=True)
    counts = [
        len(records[start : start + batch_size]) for start in range(0, len(records), batch_size)
    ]

    encoded = encode_batches(
        np.array(times, dtype=np.int64),
        pa.array(keys, type=pa.binary()),
        pa.array(values, type=pa.binary()),
        None if without_headers else _header_column(list(headers)),
        counts,
    )

    for number, columns in enumerate(encoded):
        builder = BatchBuilder()
        size = HEADER_SIZE
        for time_ms, key, value, pairs in records[number * batch_size : (number + 1) * batch_size]:
            builder.append(time_ms, key, value, [] if without_headers else pairs)
            size += RECORD_OVERHEAD + len(key or b"") + len(value or b"")
            size += 0 if without_headers else len(_header_column([pairs]).encoded[0].as_py())
        batch = wrap_records(
            columns.records,
            columns.count,
            base_timestamp=columns.base_timestamp,
            max_timestamp=columns.max_timestamp,
        )
        assert batch == builder.build()
        assert len(batch) <= size


@pytest.mark.parametrize("codec", range(len(CODEC_NAMES)))
def test_wrapped_records_equal_the_builders_batch(codec: int) -> None:
    builder = BatchBuilder(codec=codec, producer_id=7, producer_epoch=1, base_sequence=5)
    for number in range(100):
        builder.append(1000 + number, b"key", b"value" * number)
    [encoded] = encode_batches(
        np.arange(1000, 1100, dtype=np.int64),
        pa.array([b"key"] * 100),
        pa.array([b"value" * number for number in range(100)]),
        None,
        [100],
    )

    batch = wrap_records(
        encoded.records,
        encoded.count,
        base_timestamp=encoded.base_timestamp,
        max_timestamp=encoded.max_timestamp,
        codec=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
    )

    assert batch == builder.build()


def test_only_the_rows_in_a_slice_of_a_column_are_encoded() -> None:
    keys = pa.array([b"not this", b"a", None, b"not this"])[1:3]
    values = pa.array([b"not this", None, b"b", b"not this"])[1:3]
    rows = pa.array([[{"key": "no", "value": b""}], [{"key": "h", "value": None}], None])
    headers = encode_headers(rows[1:].cast(_PAIRS))
    builder = BatchBuilder()
    builder.append(5, b"a", None, [("h", None)])
    builder.append(5, None, b"b")

    [batch] = encode_batches(np.array([5, 5], dtype=np.int64), keys, values, headers, [2])

    assert bytes(batch.records) == builder.build()[HEADER_SIZE:]


def test_headers_of_two_columns_are_joined_row_by_row() -> None:
    first = _header_column([[("a", b"1")], []])
    second = _header_column([[("b", None)], [("c", b"2"), ("d", b"3")]])

    joined = concatenated_headers(first, second)

    expected = _header_column([[("a", b"1"), ("b", None)], [("c", b"2"), ("d", b"3")]])
    assert joined.encoded == expected.encoded
    assert joined.counts.tolist() == expected.counts.tolist() == [2, 2]


def test_a_header_without_a_name_is_an_error() -> None:
    rows = pa.array([[{"key": None, "value": b"1"}]], type=_PAIRS)

    with pytest.raises(ValueError, match="without a key"):
        encode_headers(rows)
