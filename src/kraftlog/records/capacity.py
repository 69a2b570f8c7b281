"""Exposes a wrong record count or codec in a batch's header without decompression.

The count is bounded: a record takes at least 7 bytes. A codec's bound is the highest compression
ratio of its format:

    gzip     deflate's longest match: 258 bytes in two bits
    snappy   a copy of 64 bytes in three bytes
    lz4      255 bytes of a match for each byte of its length
    zstd     a block of 128 KiB of one repeated byte, in four bytes
"""

from __future__ import annotations

from kraftlog.records.compression import CODEC_NAMES, ZSTD
from kraftlog.records.reader import MAX_RECORDS_SIZE, MIN_RECORD_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.types import Buffer

#: The most records of a batch that is within the decompression limit.
MOST_RECORDS = MAX_RECORDS_SIZE // MIN_RECORD_SIZE
#: By codec: the most bytes that one compressed byte can decompress to.
EXPANSION = (1, 1032, 22, 255, 32768)
#: By codec: the first bytes of compressed records. Snappy is written with and without a frame.
MAGICS = (b"", b"\x1f\x8b\x08", b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")


def can_hold(codec: int, size: int, count: int) -> bool:
    """Whether `size` bytes, compressed by a known codec, can contain this many records."""
    return count <= MOST_RECORDS and count * MIN_RECORD_SIZE <= size * EXPANSION[codec]


def has_codec_magic(codec: int, batch: bytes | bytearray, position: int = 0) -> bool:
    """Whether the records at `position` begin with this codec's magic bytes."""
    return (
        not codec
        or batch.startswith(MAGICS[codec], position)
        or (codec == ZSTD and _is_skippable(batch, position))
    )


def _is_skippable(batch: bytes | bytearray, position: int) -> bool:
    """Whether the data begins with a skippable zstd frame, as some compressors write."""
    return batch[position] & 0xF0 == 0x50 and batch.startswith(b"\x2a\x4d\x18", position + 1)


def header_error(codec: int, records: Buffer, count: int) -> str:
    """Explain why `records` disprove the header's count or codec; an empty string if they don't."""
    if not can_hold(codec, len(records), count):
        return f"{count} records in {len(records)} bytes"
    if not has_codec_magic(codec, bytes(records[:4])):
        return f"the records are not compressed with {CODEC_NAMES[codec]}, as the header says"
    return ""
