"""Where each record of a batch begins and ends, and what compaction asks of it, quickly.

Headers are not looked into and values not copied, which makes it some times faster than decoding.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.varint import decode_varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    #: start, end, key, whether there is a value, offset delta, timestamp delta
    Part = tuple[int, int, bytes | None, bool, int, int]


def split_records(payload: bytes, count: int) -> Iterator[Part]:
    """The records in the unpacked payload of a batch, which lie in it as `payload[start:end]`."""
    end = 0
    varint = decode_varint
    try:
        for _ in range(count):
            start = end
            size, cursor = varint(payload, start, max_bits=32)
            end = cursor + size
            time, cursor = varint(payload, cursor + 1, max_bits=64)
            delta, cursor = varint(payload, cursor, max_bits=32)
            key_size, cursor = varint(payload, cursor, max_bits=32)
            key = None
            if key_size >= 0:
                key = payload[cursor : cursor + key_size]
                cursor += key_size
            value_size, cursor = varint(payload, cursor, max_bits=32)
            if not start < cursor < end <= len(payload) or cursor + value_size >= end:
                raise ValueError("a length that leads out of it")
            yield start, end, key, value_size >= 0, delta, time
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record that can't be read: {error}", position=end) from None
    if end != len(payload):
        raise CorruptBatchError(f"{len(payload) - end} bytes behind the last record")
