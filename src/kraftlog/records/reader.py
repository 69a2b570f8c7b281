"""Reads the records of a batch one by one: for tools, tests and small batches.

The input is untrusted: every error in it raises a `CorruptBatchError`, and nothing is allocated by
an unchecked length.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.compression import decompress
from kraftlog.records.crc import crc32c
from kraftlog.records.header import (
    CRC_START,
    HEADER_SIZE,
    read_checked_header,
)
from kraftlog.records.record import HEADER_NAME_ERRORS, Record
from kraftlog.records.varint import decode_varint
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.records.header import BatchHeader
    from kraftlog.records.record import Header
    from kraftlog.types import Buffer

#: A batch of Kafka's default maximum size exceeds this only if it is compressed a hundredfold.
MAX_RECORDS_SIZE = 128 << 20
#: Length, attributes, two deltas, two lengths and a count: at least one byte each.
MIN_RECORD_SIZE = 7


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    actual = crc32c(memoryview(buffer)[position + CRC_START : position + header.size])
    if actual != header.crc:
        raise CorruptBatchError(
            f"checksum {header.crc:#010x}, computed {actual:#010x}", position=position
        )


def records_payload(
    buffer: Buffer, header: BatchHeader, position: int = 0, *, max_size: int = MAX_RECORDS_SIZE
) -> bytes:
    """The decompressed records; raises if they exceed `max_size`."""
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    if header.codec and header.record_count:
        return decompress(header.codec, packed, max_size)
    return bytes(packed)


def read_records(
    buffer: Buffer,
    position: int = 0,
    *,
    with_crc: bool = True,
    max_size: int = MAX_RECORDS_SIZE,
) -> Iterator[Record]:
    """Yield the records of the batch at `position`; each is checked as it is read."""
    header = read_checked_header(buffer, position)
    if with_crc:
        check_crc(buffer, header, position)
    payload = records_payload(buffer, header, position, max_size=max_size)
    return decode_records(header, payload)


def decode_records(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    """Yield the records in the decompressed `payload` of a batch."""
    if header.record_count * MIN_RECORD_SIZE > len(payload):
        raise CorruptBatchError(f"{header.record_count} records in {len(payload)} bytes")
    cursor = 0
    for number in range(header.record_count):
        try:
            record, cursor = _decode_record(header, payload, cursor)
        except IndexError:
            raise CorruptBatchError(f"record {number} is truncated", position=cursor) from None
        except ValueError as error:
            raise CorruptBatchError(f"record {number}: {error}", position=cursor) from None
        yield record
    if cursor != len(payload):
        raise CorruptBatchError(f"{len(payload) - cursor} bytes after the last record")


def _decode_record(header: BatchHeader, payload: bytes, start: int) -> tuple[Record, int]:
    size, cursor = decode_varint(payload, start, max_bits=32)
    end = cursor + size
    if not cursor < end <= len(payload):
        raise ValueError(f"a size of {size}")
    timestamp_delta, cursor = decode_varint(payload, cursor + 1, max_bits=64)
    offset_delta, cursor = decode_varint(payload, cursor, max_bits=32)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise ValueError(f"offset delta {offset_delta} of {header.last_offset_delta}")
    key, cursor = _decode_bytes(payload, cursor, end)
    value, cursor = _decode_bytes(payload, cursor, end)
    headers, cursor = decode_headers(payload, cursor, end)
    if cursor != end:
        raise ValueError(f"{end - cursor} bytes left over of {size}")
    if header.has_log_append_time:
        timestamp = header.max_timestamp
    else:
        timestamp = wrap_long(header.base_timestamp + timestamp_delta)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _decode_bytes(payload: bytes, cursor: int, end: int) -> tuple[bytes | None, int]:
    size, cursor = decode_varint(payload, cursor, max_bits=32)
    if size < 0:
        return None, cursor
    if cursor + size > end:
        raise ValueError(f"a field of {size} bytes where {end - cursor} are left")
    return payload[cursor : cursor + size], cursor + size


def decode_headers(payload: bytes, cursor: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, cursor = decode_varint(payload, cursor, max_bits=32)
    if count == 0:
        return (), cursor
    if not 0 < count <= (end - cursor) // 2:
        raise ValueError(f"{count} headers in {end - cursor} bytes")
    headers = []
    for _ in range(count):
        name, cursor = _decode_bytes(payload, cursor, end)
        if name is None:
            raise ValueError("a header without a name")
        content, cursor = _decode_bytes(payload, cursor, end)
        headers.append((name.decode("utf-8", HEADER_NAME_ERRORS), content))
    return tuple(headers), cursor


def wrap_long(number: int) -> int:
    """Wrap a sum to a signed 64-bit integer, as in Java."""
    return (number + (1 << 63) & 0xFFFF_FFFF_FFFF_FFFF) - (1 << 63)
