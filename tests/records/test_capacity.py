"""Impossible record counts in headers are refused, and possible ones accepted."""

from __future__ import annotations

import gzip

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.records.builder import encode_record
from kraftlog.records.capacity import EXPANSION, MOST_RECORDS, header_error
from kraftlog.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from kraftlog.records.reader import MIN_RECORD_SIZE

SMALLEST = encode_record(0, 0, None, None)
#: The highest compression of each codec, which comes nearest to its bound.
BEST_COMPRESSION = {
    GZIP: lambda data: gzip.compress(data, 9),
    SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    LZ4: lambda data: bytes(cramjam.lz4.compress(data, level=12)),
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data, 19)),
}


def test_the_smallest_record_has_the_minimum_size() -> None:
    assert len(SMALLEST) == MIN_RECORD_SIZE


@pytest.mark.parametrize("codec", BEST_COMPRESSION, ids=lambda codec: CODEC_NAMES[codec])
@pytest.mark.parametrize("size", [1 << 12, 1 << 24])
def test_no_codec_exceeds_its_expansion_bound(codec: int, size: int) -> None:
    compressed = BEST_COMPRESSION[codec](bytes(size))
    assert size <= len(compressed) * EXPANSION[codec]
    if size > 1 << 20:
        assert size > len(compressed) * EXPANSION[codec] // 2, "the bound is near"


@given(st.integers(1, 500), st.integers(NONE, ZSTD), st.sampled_from([None, b"", b"v", b"v" * 99]))
def test_valid_compressed_batches_are_accepted(count: int, codec: int, value: bytes | None) -> None:
    payload = b"".join(encode_record(number, 0, None, value) for number in range(count))
    assert header_error(codec, compress(codec, payload), count) == ""


@pytest.mark.parametrize(
    ("codec", "records", "count", "reason"),
    [
        (NONE, SMALLEST, 2, "2 records in 7 bytes"),
        (NONE, b"", 1, "1 records in 0 bytes"),
        (GZIP, compress(GZIP, SMALLEST), 100_000, "100000 records in "),
        (SNAPPY, compress(SNAPPY, SMALLEST), 1000, "1000 records in "),
        (LZ4, compress(LZ4, SMALLEST), 10_000, "10000 records in "),
        (ZSTD, compress(ZSTD, SMALLEST), 1_000_000, "1000000 records in "),
        (ZSTD, compress(ZSTD, bytes(1 << 20)), MOST_RECORDS + 1, f"{MOST_RECORDS + 1} records"),
        (GZIP, compress(ZSTD, SMALLEST), 1, "not compressed with gzip"),
        (ZSTD, compress(GZIP, SMALLEST), 1, "not compressed with zstd"),
        (LZ4, SMALLEST, 1, "not compressed with lz4"),
    ],
)
def test_impossible_record_counts_are_refused(
    codec: int, records: bytes, count: int, reason: str
) -> None:
    assert reason in header_error(codec, records, count)
