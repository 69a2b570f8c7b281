"""Finds the first record of a batch at or after a timestamp, in bounded steps."""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.compression import NONE, decompress_front
from kraftlog.records.header import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    read_checked_header,
)
from kraftlog.records.reader import MIN_RECORD_SIZE, check_crc, wrap_long
from kraftlog.records.varint import decode_varint
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.records.header import BatchHeader

    #: A search in steps; it returns offset and timestamp, or None if all records are older.
    TimestampSearch = Generator[int, None, tuple[int, int] | None]

#: The most bytes that are decompressed of a batch: more would block the loop.
MAX_DECOMPRESSED = 2 << 20
#: Records in a step of the search, and its cost in microseconds.
RECORDS_PER_STEP = 500
STEP_COST = 600


def find_time_in_steps(batch: bytes, timestamp: int, first: int) -> TimestampSearch:
    """Find the first record at or after `timestamp`, from offset `first` on, in a whole batch.

    Yields the cost of each step in microseconds. If the header suffices, the records are not read.
    Of records that decompress to more than `MAX_DECOMPRESSED`, only the front is searched. If all
    of that is older, the result is the offset after the front, so that a reader that starts there
    misses nothing.
    """
    header = read_checked_header(batch)
    if header.max_timestamp < timestamp:
        return None
    check_crc(batch, header)
    yield 20 + len(batch) // 4096  # reading and checking the batch
    if _is_dense(header) and first <= header.base_offset:
        if header.has_log_append_time:
            return header.base_offset, header.max_timestamp
        if header.base_timestamp >= timestamp and not header.attributes & DELETE_HORIZON_BIT:
            return header.base_offset, header.base_timestamp  # that of the first record
    compressed = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec == NONE:
        payload, is_whole = bytes(compressed), True
    else:
        payload, is_whole = decompress_front(header.codec, compressed, MAX_DECOMPRESSED)
        yield len(payload) >> 10  # decompression: a microsecond per KiB
    return (yield from _search(header, payload, timestamp, first, is_whole=is_whole))


def _is_dense(header: BatchHeader) -> bool:
    """Whether compaction has removed no record."""
    return header.record_count == header.last_offset_delta + 1


def _search(
    header: BatchHeader, payload: bytes, timestamp: int, first: int, *, is_whole: bool
) -> TimestampSearch:
    if is_whole and header.record_count * MIN_RECORD_SIZE > len(payload):
        raise CorruptBatchError(f"{header.record_count} records in {len(payload)} bytes")
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    max_timestamp = header.max_timestamp
    cursor, size, following = 0, len(payload), base_offset
    for number in range(header.record_count):
        if number and not number % RECORDS_PER_STEP:
            yield STEP_COST
        try:
            end, time_delta, offset_delta = _peek(payload, cursor)
            if end > size and is_whole:
                raise ValueError(f"{end - size} bytes are missing")
        except (IndexError, ValueError) as error:
            if not is_whole:
                break
            raise CorruptBatchError(f"record {number}: {error}", position=cursor) from None
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise CorruptBatchError(f"record {number}: offset delta {offset_delta}")
        offset = base_offset + offset_delta
        time = max_timestamp
        if not header.has_log_append_time:
            time = wrap_long(base_timestamp + time_delta)
        if time >= timestamp and offset >= first:
            yield STEP_COST * (number % RECORDS_PER_STEP) // RECORDS_PER_STEP
            return offset, time
        cursor, following = end, offset + 1
    yield STEP_COST
    if is_whole or following > header.last_offset:
        return None
    return max(following, first), max_timestamp


def _peek(payload: bytes, cursor: int) -> tuple[int, int, int]:
    """The end, timestamp delta and offset delta of the record at `cursor`."""
    byte = payload[cursor]
    if byte < 0x80:
        length, cursor = byte >> 1 ^ -(byte & 1), cursor + 1
    else:
        length, cursor = decode_varint(payload, cursor, max_bits=32)
    if length <= 0:
        raise ValueError(f"a size of {length}")
    end = cursor + length
    time_delta, cursor = decode_varint(payload, cursor + 1, max_bits=64)
    byte = payload[cursor]
    if byte < 0x80:
        return end, time_delta, byte >> 1 ^ -(byte & 1)
    return end, time_delta, decode_varint(payload, cursor, max_bits=32)[0]
