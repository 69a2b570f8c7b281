"""Splits a batch into records, with the fields that compaction needs.

It is several times as fast as decoding: headers are skipped, values are not copied, and one-byte
varints, the common case, are read in place.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.varint import decode_varint
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: start, end, key, whether there is a value, offset delta, timestamp delta
    SplitRecord = tuple[int, int, bytes | None, bool, int, int]


def split_records(payload: bytes, count: int) -> Iterator[SplitRecord]:  # noqa: PLR0912 - calls would double its time
    """Yield the records in a batch's decompressed payload; each is `payload[start:end]`."""
    end = 0
    varint = decode_varint
    try:
        for _ in range(count):
            start = end
            size = payload[start]
            if size < 0x80:
                size, cursor = (size >> 1) ^ -(size & 1), start + 1
            else:
                size, cursor = varint(payload, start, max_bits=32)
            end = cursor + size
            time = payload[cursor + 1]
            if time < 0x80:
                time, cursor = (time >> 1) ^ -(time & 1), cursor + 2
            else:
                time, cursor = varint(payload, cursor + 1, max_bits=64)
            delta = payload[cursor]
            if delta < 0x80:
                delta, cursor = (delta >> 1) ^ -(delta & 1), cursor + 1
            else:
                delta, cursor = varint(payload, cursor, max_bits=32)
            key_size = payload[cursor]
            if key_size < 0x80:
                key_size, cursor = (key_size >> 1) ^ -(key_size & 1), cursor + 1
            else:
                key_size, cursor = varint(payload, cursor, max_bits=32)
            key = None
            if key_size >= 0:
                key = payload[cursor : cursor + key_size]
                cursor += key_size
            value_size = payload[cursor]
            if value_size < 0x80:
                value_size, cursor = (value_size >> 1) ^ -(value_size & 1), cursor + 1
            else:
                value_size, cursor = varint(payload, cursor, max_bits=32)
            if not start < cursor < end <= len(payload) or cursor + value_size >= end:
                raise ValueError("a length that exceeds the record")
            yield start, end, key, value_size >= 0, delta, time
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record that can't be read: {error}", position=end) from None
    if end != len(payload):
        raise CorruptBatchError(f"{len(payload) - end} bytes after the last record")
