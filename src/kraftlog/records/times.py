"""Finding a moment in the records of a batch, in bounded pieces of work."""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.compression import NONE, unpack_front
from kraftlog.records.header import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    read_checked_header,
)
from kraftlog.records.reader import MIN_RECORD_SIZE, check_crc
from kraftlog.records.varint import decode_varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.records.header import BatchHeader

    #: Offset and timestamp; None: no record is young enough.
    Found = Generator[int, None, tuple[int, int] | None]

#: So many bytes of a packed batch are unpacked at most: more would keep everybody waiting.
UNPACKED_BYTES = 2 << 20
#: After so many records the search pauses, having cost so many microseconds.
RECORDS_IN_A_STEP = 500
A_STEP_COSTS = 600


def finding_time(batch: bytes, timestamp: int, first: int) -> Found:
    """The first record of a whole batch, from the offset `first` on, that is not older.

    Yields what each step has cost in microseconds. The header answers where it can. Of a batch that
    unpacks to more than `UNPACKED_BYTES` only the front is searched; if all of that is older, the
    answer is where the search ended: a reader that begins there misses nothing.
    """
    header = read_checked_header(batch)
    if header.max_timestamp < timestamp:
        return None
    check_crc(batch, header)
    yield 20 + len(batch) // 4096
    if _is_dense(header) and first <= header.base_offset:
        if header.has_log_append_time:
            return header.base_offset, header.max_timestamp
        if header.base_timestamp >= timestamp and not header.attributes & DELETE_HORIZON_BIT:
            return header.base_offset, header.base_timestamp  # the time of the first record
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec == NONE:
        payload, is_whole = bytes(packed), True
    else:
        payload, is_whole = unpack_front(header.codec, packed, UNPACKED_BYTES)
        yield len(payload) >> 10
    return (yield from _search(header, payload, timestamp, first, is_whole=is_whole))


def _is_dense(header: BatchHeader) -> bool:
    """Whether nothing was compacted away."""
    return header.record_count == header.last_offset_delta + 1


def _search(
    header: BatchHeader, payload: bytes, timestamp: int, first: int, *, is_whole: bool
) -> Found:
    if is_whole and header.record_count * MIN_RECORD_SIZE > len(payload):
        raise CorruptBatchError(f"{header.record_count} records in {len(payload)} bytes")
    base_offset, base_time, newest = header.base_offset, header.base_timestamp, header.max_timestamp
    cursor, size, following = 0, len(payload), base_offset
    for number in range(header.record_count):
        if number and not number % RECORDS_IN_A_STEP:
            yield A_STEP_COSTS
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
        time = newest if header.has_log_append_time else base_time + time_delta
        if time >= timestamp and offset >= first:
            yield A_STEP_COSTS * (number % RECORDS_IN_A_STEP) // RECORDS_IN_A_STEP
            return offset, time
        cursor, following = end, offset + 1
    yield A_STEP_COSTS
    if is_whole or following > header.last_offset:
        return None
    return max(following, first), newest


def _peek(payload: bytes, cursor: int) -> tuple[int, int, int]:
    """Where the record at `cursor` ends, its timestamp delta and its offset delta."""
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
