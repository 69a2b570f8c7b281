"""The 61 bytes in front of every record batch (format v2): reading and stamping them.

The CRC covers the bytes from `attributes` to the end, so base offset and leader epoch can be
written in place by whoever appends the batch.
"""

from __future__ import annotations

import struct

from kraftlog.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kraftlog.types import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 61

#: Bytes of a batch that its length field does not count: base offset and the length itself.
LENGTH_OVERHEAD = 12
#: Where the CRC'd part begins.
CRC_START = 21
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
        """Bytes of the whole batch."""
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
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; nothing is checked but that 61 bytes are there."""
    return BatchHeader(*HEADER.unpack_from(buffer, position))


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, epoch: int) -> None:
    """Write base offset and leader epoch in place; the CRC does not cover them."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LENGTH_OVERHEAD, epoch)


_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
