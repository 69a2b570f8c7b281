"""Converts messages of Kafka's old formats, v0 and v1, to record batches (v2).

Brokers before Kafka 0.11 wrote them, and a broker of Kafka 4 returns them as they are in its log.
Such a message has one record, or it is compressed: a wrapper, whose value is messages. Their
offsets are absolute in v0, and relative to each other in v1, where the last has the wrapper's.

The input is untrusted, as everywhere: an error in it raises a `CorruptBatchError`.
"""

from __future__ import annotations

import struct
from zlib import crc32

from kraftlog.errors import CorruptBatchError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.compression import LZ4, ZSTD, decompress, with_lz4_checksum
from kraftlog.records.header import (
    CODEC_MASK,
    LENGTH_OVERHEAD,
    MAGIC,
    MAX_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
)
from kraftlog.records.reader import MAX_RECORDS_SIZE
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.types import Buffer

#: Messages and batches begin with an offset and a size, and have their format at this position.
_OFFSET_AND_SIZE = struct.Struct(">qi")
_MAGIC_POSITION = 16
#: The start of a message: offset, size, checksum, format, attributes; in v1 also a timestamp.
_FRONT = struct.Struct(">qiIbb")
_FRONT_V1 = struct.Struct(">qiIbbq")
_FIELD_SIZE = struct.Struct(">i")
#: Offsets and timestamps of a batch are relative to its first record's.
_OFFSET_DELTAS = range(1 << 31)
_TIMESTAMP_DELTAS = range(-(1 << 63), 1 << 63)


class _Message(Value):
    offset: int
    magic: int
    #: 0 if the message is no wrapper.
    codec: int
    timestamp_ms: int
    #: Whether the timestamp is the broker's.
    is_append_time: bool
    key: bytes | None
    value: bytes | None


def in_current_format(data: Buffer, *, max_size: int = MAX_RECORDS_SIZE) -> Buffer:
    """Return fetched `data` with batches in place of messages of old formats; usually it has none.

    A partial last message is left out. So is all from the first wrapper after `max_size`
    decompressed bytes on: to a consumer it is as if the response ended there.
    """
    if not _has_old_format(data):
        return data
    batches = _Batches()
    room = max_size
    for entry in _entries(memoryview(data)):
        if entry[_MAGIC_POSITION] >= MAGIC:
            batches.add_batch(entry)
            continue
        message = _decode(entry)
        if not message.codec:
            batches.append(message)
        elif room > 0:
            payload = _decompress(message, max_size)
            room -= len(payload)
            for inner in _unwrap(message, payload):
                batches.append(inner)
        else:
            break
    return batches.build()


def _has_old_format(data: Buffer) -> bool:
    position = 0
    end = len(data) - _MAGIC_POSITION
    while position < end:
        if data[position + _MAGIC_POSITION] < MAGIC:
            return True
        size = _OFFSET_AND_SIZE.unpack_from(data, position)[1]
        position += LENGTH_OVERHEAD + max(size, 0)
    return False


def _entries(data: memoryview) -> Iterator[memoryview]:
    """Yield the bytes of each complete message or batch."""
    position = 0
    while len(data) - position >= _FRONT.size:
        offset, size = _OFFSET_AND_SIZE.unpack_from(data, position)
        if size < _FRONT.size - LENGTH_OVERHEAD:
            raise _error(offset, f"a size of {size}")
        end = position + LENGTH_OVERHEAD + size
        if end > len(data):
            return
        yield data[position:end]
        position = end


def _decode(entry: memoryview) -> _Message:
    offset, _, crc, magic, attributes = _FRONT.unpack_from(entry)
    actual = crc32(entry[_MAGIC_POSITION:])
    if actual != crc:
        raise _error(offset, f"checksum {crc:#010x}, computed {actual:#010x}")
    if not 0 <= offset <= MAX_OFFSET:
        raise _error(offset, "an invalid offset")
    try:
        if magic:
            timestamp = _FRONT_V1.unpack_from(entry)[-1]
            key, cursor = _field(entry, _FRONT_V1.size)
        else:
            timestamp = NO_TIMESTAMP
            key, cursor = _field(entry, _FRONT.size)
        value, cursor = _field(entry, cursor)
    except (struct.error, ValueError):
        raise _error(offset, "its key or value ends after it") from None
    if cursor != len(entry):
        raise _error(offset, f"{len(entry) - cursor} bytes after its value")
    is_append_time = bool(magic and attributes & TIMESTAMP_TYPE_BIT)
    return _Message(offset, magic, attributes & CODEC_MASK, timestamp, is_append_time, key, value)


def _field(entry: memoryview, cursor: int) -> tuple[bytes | None, int]:
    (size,) = _FIELD_SIZE.unpack_from(entry, cursor)
    cursor += _FIELD_SIZE.size
    if size == -1:
        return None, cursor
    if not 0 <= size <= len(entry) - cursor:
        raise ValueError
    return bytes(entry[cursor : cursor + size]), cursor + size


def _decompress(wrapper: _Message, max_size: int) -> bytes:
    if wrapper.value is None or wrapper.codec == ZSTD:
        what = "a null value" if wrapper.value is None else "zstd, which its format does not have"
        raise _error(wrapper.offset, f"it is compressed, with {what}")
    packed = wrapper.value
    if wrapper.codec == LZ4 and wrapper.magic == 0:
        packed = with_lz4_checksum(packed)
    return decompress(wrapper.codec, packed, max_size)


def _unwrap(wrapper: _Message, payload: bytes) -> Iterator[_Message]:
    """Yield the messages in a wrapper's decompressed value, with absolute offsets.

    A wrapper of v1 with the broker's time has it for all its messages.
    """
    messages = []
    for entry in _entries(memoryview(payload)):
        if entry[_MAGIC_POSITION] >= MAGIC:
            raise _error(wrapper.offset, "a batch in a compressed message")
        messages.append(_decode(entry))
    if not messages:
        raise _error(wrapper.offset, "it is compressed, with no message in it")
    base = 0
    if wrapper.magic and wrapper.offset:  # some librdkafka left 0 in wrappers: no base is known
        base = wrapper.offset - messages[-1].offset
        if base < 0:
            raise _error(wrapper.offset, f"offset {messages[-1].offset} in it is after its own")
    for inner in messages:
        if inner.codec:
            raise _error(wrapper.offset, "a compressed message in a compressed message")
        has_append_time = bool(inner.magic) and wrapper.is_append_time
        yield _Message(
            base + inner.offset,
            inner.magic,
            0,
            wrapper.timestamp_ms if has_append_time else inner.timestamp_ms,
            has_append_time,
            inner.key,
            inner.value,
        )


class _Batches:
    """Collects messages into batches, as many into one as it can hold."""

    def __init__(self) -> None:
        self._parts: list[Buffer] = []
        self._builder: BatchBuilder | None = None

    def append(self, message: _Message) -> None:
        time = message.timestamp_ms
        builder = self._builder
        if builder is not None and message.offset < builder.next_offset:
            raise _error(message.offset, f"it follows offset {builder.next_offset - 1}")
        if builder is None or not _fits(builder, message):
            self._end_batch()
            append_time = time if message.is_append_time else None
            builder = BatchBuilder(base_offset=message.offset, append_time_ms=append_time)
            self._builder = builder
        builder.append(time, message.key, message.value, offset=message.offset)

    def add_batch(self, batch: memoryview) -> None:
        self._end_batch()
        self._parts.append(batch)

    def build(self) -> bytes:
        self._end_batch()
        return b"".join(self._parts)

    def _end_batch(self) -> None:
        if self._builder is not None:
            self._parts.append(self._builder.build())
            self._builder = None


def _fits(builder: BatchBuilder, message: _Message) -> bool:
    assert builder.base_timestamp is not None
    append_time = message.timestamp_ms if message.is_append_time else None
    return (
        builder.append_time_ms == append_time
        and message.offset - builder.base_offset in _OFFSET_DELTAS
        and message.timestamp_ms - builder.base_timestamp in _TIMESTAMP_DELTAS
    )


def _error(offset: int, what: str) -> CorruptBatchError:
    return CorruptBatchError(f"message at offset {offset}: {what}")
