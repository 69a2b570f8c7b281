"""Bounds of the records in a batch, which expose a wrong header without decompression.

A record takes 7 bytes at least. A codec's bound is the most that its format can make of a byte:

    gzip     deflate's longest match, 258 bytes, in two bits
    snappy   a copy of 64 bytes in three
    lz4      255 bytes of a match by each byte of its length
    zstd     a block of 128 KiB, all one byte, in four
"""

from __future__ import annotations

from kraftlog.records.compression import CODEC_NAMES, ZSTD
from kraftlog.records.reader import MAX_RECORDS_SIZE, MIN_RECORD_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kraftlog.types import Buffer

#: No reader of ours unpacks a batch of more records.
MOST_RECORDS = MAX_RECORDS_SIZE // MIN_RECORD_SIZE
#: By codec: how many bytes one byte can be unpacked to.
EXPANSION = (1, 1032, 22, 255, 32768)
#: By codec: with what packed records begin. Snappy is written with and without a frame.
MAGICS = (b"", b"\x1f\x8b\x08", b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")


def can_hold(codec: int, size: int, count: int) -> bool:
    """Whether `size` bytes, compressed by a known codec, can contain this many records."""
    return count <= MOST_RECORDS and count * MIN_RECORD_SIZE <= size * EXPANSION[codec]


def is_packed_by(codec: int, batch: bytes | bytearray, position: int = 0) -> bool:
    """Whether the records at `position` begin as this codec's do."""
    return (
        not codec
        or batch.startswith(MAGICS[codec], position)
        or (codec == ZSTD and _is_skippable(batch, position))
    )


def _is_skippable(batch: bytes | bytearray, position: int) -> bool:
    """Whether a frame of zstd that holds something else comes first, as some packers write."""
    return batch[position] & 0xF0 == 0x50 and batch.startswith(b"\x2a\x4d\x18", position + 1)


def why_not(codec: int, records: Buffer, count: int) -> str:
    """Why `records`, packed by a known codec, can't be that many; nothing where they may be."""
    if not can_hold(codec, len(records), count):
        return f"{count} records in {len(records)} bytes"
    if not is_packed_by(codec, bytes(records[:4])):
        return f"the records are not packed by {CODEC_NAMES[codec]}, as the header says"
    return ""
