"""Searching a batch by timestamp is bounded work.

The search finds the first record with the requested timestamp or a later one; in a large batch it
may find an offset before that record.
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import CorruptBatchError
from kraftlog.records import times
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraftlog.records.header import HEADER_SIZE, stamp_append_time
from kraftlog.records.reader import read_records
from kraftlog.records.times import find_time_in_steps
from kraftlog.records.varint import encode_varint

all_codecs = pytest.mark.parametrize("codec", range(len(CODEC_NAMES)), ids=CODEC_NAMES)


def find(batch: bytes, timestamp: int, first: int = 0) -> tuple[int, int] | None:
    """The offset and timestamp that a search from offset `first` on finds."""
    position: tuple[int, int] | None = run_search(batch, timestamp, first)[0]
    return position


def run_search(batch: bytes, timestamp: int, first: int = 0) -> tuple[Any, list[int]]:
    """Run the search; return its result and the costs of its steps."""
    steps, costs = find_time_in_steps(batch, timestamp, first), list[int]()
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as stop:
            return stop.value, costs


def batch_with_timestamps(codec: int, *timestamps: int) -> bytes:
    builder = BatchBuilder(codec=codec)
    for timestamp in timestamps:
        builder.append(timestamp, None, b"value")
    return builder.build()


@all_codecs
def test_the_first_record_at_or_after_the_timestamp_is_found(codec: int) -> None:
    batch = batch_with_timestamps(codec, 1000, 3000, 2000, 5000, 4000)
    for timestamp in range(500, 6000, 250):
        for first in range(6):
            expected = [
                (record.offset, record.timestamp_ms)
                for record in read_records(batch)
                if record.timestamp_ms >= timestamp and record.offset >= first
            ]
            assert find(batch, timestamp, first) == next(iter(expected), None)


def test_a_timestamp_that_overflows_wraps_as_in_java() -> None:
    """A response with a larger number could not be encoded."""
    batch = bytearray(batch_with_timestamps(NONE, 1000, (1 << 63) - 1))
    batch[27:35] = (2000).to_bytes(8, "big")  # the base timestamp, to which the delta is added
    batch[35:43] = (3000).to_bytes(8, "big")
    records = [*read_records(with_checksum(batch))]
    assert records[1].timestamp_ms < 0
    assert find(with_checksum(batch), 2500) is None


def test_the_header_suffices_if_all_timestamps_are_equal() -> None:
    """Otherwise a batch of 12 kB with 18.7 million equal records would have to be decompressed."""
    batch = bytearray(batch_with_timestamps(NONE, *[1000] * 5))
    batch[HEADER_SIZE:] = bytes(len(batch) - HEADER_SIZE)  # reading records fails
    with pytest.raises(CorruptBatchError):
        find(with_checksum(batch), 1000, 1)
    assert find(with_checksum(batch), 1000) == (0, 1000)
    stamp_append_time(batch, 0, 7000)
    assert find(bytes(batch), 6000) == (0, 7000)


def with_checksum(batch: bytearray) -> bytes:
    from kraftlog.records.crc import crc32c

    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=["gzip", "lz4", "zstd"])
def test_only_the_front_of_a_large_batch_is_searched(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_with_timestamps(codec, *range(1000, 11_000))
    assert find(batch, 9000) == (8000, 9000)
    monkeypatch.setattr(times, "MAX_DECOMPRESSED", 20_000)
    (offset, timestamp), costs = run_search(batch, 9000)
    assert 1000 < offset < 3000, "a reader that starts there misses nothing"
    assert timestamp == 10_999
    assert sum(costs) < 6000
    assert find(batch, 1500) == (500, 1500)


def test_a_raw_snappy_block_over_the_limit_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(times, "MAX_DECOMPRESSED", 2_000)
    batch = batch_with_timestamps(SNAPPY, *range(1000, 11_000))
    assert find(batch, 9000) == (0, 10_999)


def test_a_step_has_a_bounded_number_of_records() -> None:
    batch = batch_with_timestamps(NONE, *range(1000, 11_000))
    position, costs = run_search(batch, 10_999)
    assert position == (9999, 10_999)
    assert len(costs) == 2 + 9999 // times.RECORDS_PER_STEP
    assert max(costs) <= times.STEP_COST


def test_truncated_records_are_corrupt() -> None:
    batch = bytearray(batch_with_timestamps(NONE, 1000, 2000))
    record = encode_varint(100)
    batch[HEADER_SIZE : HEADER_SIZE + len(record)] = record
    with pytest.raises(CorruptBatchError, match=r"record 0: \d+ bytes are missing"):
        find(with_checksum(batch), 1500)
