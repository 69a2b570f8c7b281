"""Reads and stamps the 61-byte header of a record batch (format v2).

The CRC covers the bytes from `attributes` to the end, so a leader can write base offset and leader
epoch in place when it appends the batch.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptBatchError
from kraftlog.records.crc import crc32c
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 61

#: The bytes that a batch's length field does not count: base offset and the length itself.
LENGTH_OVERHEAD = 12
#: The batch length of a batch without records.
MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
MAX_OFFSET = (1 << 63) - 1
#: The start of the bytes that the CRC covers.
CRC_START = 21
MAX_TIMESTAMP_START = 35
MAGIC = 2

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08  # set: the broker's append time, in max_timestamp
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1


class BatchHeader(Value):
    """The fields of a batch's header, in the order in which they are written."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers may be removed; stored in place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`, without a check of its fields."""
    return BatchHeader(*HEADER.unpack_from(buffer, position))


def read_checked_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`, which must be complete and valid."""
    available = len(buffer) - position
    if available < HEADER_SIZE:
        raise CorruptBatchError(f"{available} bytes can't hold a batch", position=position)
    header = read_header(buffer, position)
    check_header(header, position)
    if header.size > available:
        raise CorruptBatchError(
            f"a batch of {header.size} bytes where {available} are left", position=position
        )
    return header


def check_header(header: BatchHeader, position: int = 0) -> None:
    """Raise unless all fields are valid. (`walk` has the same rules.)"""
    if header.magic != MAGIC:
        raise CorruptBatchError(f"record format {header.magic}, not {MAGIC}", position=position)
    if header.batch_length < MIN_LENGTH:
        raise CorruptBatchError(f"a batch length of {header.batch_length}", position=position)
    if header.base_offset < 0 or header.last_offset > MAX_OFFSET or header.last_offset_delta < 0:
        raise CorruptBatchError(
            f"offsets from {header.base_offset} to {header.last_offset}", position=position
        )
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatchError(
            f"{header.record_count} records in {header.last_offset_delta + 1} offsets",
            position=position,
        )


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, epoch: int) -> None:
    """Write base offset and leader epoch in place; the CRC does not cover them."""
    _OFFSET_OR_TIMESTAMP.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LENGTH_OVERHEAD, epoch)


def stamp_whole(batch: bytearray | memoryview, base_offset: int, epoch: int) -> None:
    """Like `stamp`, for exactly one batch; it rewrites the length in between as it was."""
    _STAMP.pack_into(batch, 0, base_offset, len(batch) - LENGTH_OVERHEAD, epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, now_ms: int) -> None:
    """Set the log append time of a batch in place, and update its CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + CRC_START)
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, attributes | TIMESTAMP_TYPE_BIT)
    stamp_max_timestamp(buffer, position, now_ms)


def stamp_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Set the max timestamp of a batch in place, and update its CRC."""
    view = memoryview(buffer)
    header = read_header(buffer, position)
    _OFFSET_OR_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_START, timestamp_ms)
    crc = crc32c(view[position + CRC_START : position + header.size])
    _CRC.pack_into(buffer, position + CRC_START - _CRC.size, crc)


_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_OFFSET_OR_TIMESTAMP = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_STAMP = struct.Struct(">qii")
