"""Recompresses a batch with the codec of its topic's `compression.type`."""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptBatchError, ErrorCode
from kraftlog.records.compression import compress
from kraftlog.records.crc import crc32c
from kraftlog.records.header import CODEC_MASK, CRC_START, HEADER_SIZE, LENGTH_OVERHEAD
from kraftlog.records.reader import MAX_RECORDS_SIZE, records_payload
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.records.header import BatchHeader
    from kraftlog.types import Buffer

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_CRC_AND_ATTRIBUTES = struct.Struct(">Ih")
_CRC_AT = CRC_START - 4


def repack(
    batch: Buffer,
    header: BatchHeader,
    codec: int,
    level: int | None = None,
    *,
    max_size: int = MAX_RECORDS_SIZE,
) -> bytearray:
    """Recompress a batch; only length, codec and CRC of its header change.

    The records themselves are not parsed.
    """
    try:
        payload = records_payload(batch, header, max_size=max_size)
    except CorruptBatchError as error:
        # The checksum is valid, so a retry, as after CORRUPT_MESSAGE, would not help.
        raise CorruptBatchError(error.what, code=ErrorCode.INVALID_RECORD) from error
    compressed = compress(codec, payload, level) if codec else payload
    repacked = bytearray(memoryview(batch)[:HEADER_SIZE])
    repacked += compressed
    _LENGTH.pack_into(repacked, _LENGTH_AT, len(repacked) - LENGTH_OVERHEAD)
    attributes = (header.attributes & ~CODEC_MASK) | codec
    _CRC_AND_ATTRIBUTES.pack_into(repacked, _CRC_AT, 0, attributes)
    _CRC_AND_ATTRIBUTES.pack_into(
        repacked, _CRC_AT, crc32c(memoryview(repacked)[CRC_START:]), attributes
    )
    return repacked
