"""The compression codecs of record batches, with a limit on the decompressed size.

gzip is in the standard library. snappy, lz4 and zstd are in cramjam, which is imported for the
first batch that needs one of them. A broker seldom decompresses a batch.

Decompression never allocates more than `max_size`, nor more than the compressed bytes can contain:
the block headers of lz4 and zstd frames give a bound without decompression.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from kraftlog.types import Buffer

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


class UnsupportedCodecError(CorruptBatchError):
    """The batch may be valid, but its codec is unknown or not installed."""

    def __init__(self, what: str) -> None:
        super().__init__(what, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress `data` as Kafka's clients do; `level` is the codec's own, None its default."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return _gzip(data, level)
    if codec == SNAPPY:
        return _snappy_xerial(data)
    if codec == LZ4:
        return _lz4_frame(data, level)
    if codec == ZSTD:
        return bytes(_cramjam(codec).zstd.compress(data, 3 if level is None else level))
    raise UnsupportedCodecError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, max_size: int) -> bytes:
    """Decompress `data`; raise if the result exceeds `max_size`."""
    if codec == GZIP:
        return _gunzip(data, max_size)
    if codec == SNAPPY:
        return _unsnappy(data, max_size)
    if codec == LZ4:
        bound = lz4_bound(data)
        return _decompress_frame(codec, _cramjam(codec).lz4, data, bound, max_size)
    if codec == ZSTD:
        bound = zstd_bound(data)
        return _decompress_frame(codec, _cramjam(codec).zstd, data, bound, max_size)
    if codec == NONE:
        if len(data) > max_size:
            raise _too_large(codec, max_size)
        return bytes(data)
    raise UnsupportedCodecError(f"unknown compression codec {codec}")


def decompress_front(codec: int, data: Buffer, max_size: int) -> tuple[bytes, bool]:
    """Decompress at most `max_size` bytes; return them, and whether they are complete.

    snappy is never decompressed in part: the front of data larger than `max_size` is empty.
    """
    try:
        if codec == GZIP:
            return _gunzip_front(data, max_size)
        if codec in (LZ4, ZSTD):
            module = _cramjam(codec).lz4 if codec == LZ4 else _cramjam(codec).zstd
            bound = lz4_bound(data) if codec == LZ4 else zstd_bound(data)
            buffer = bytearray(min(bound, max_size))
            return _decompress_into(codec, module, data, buffer, bound)
        return decompress(codec, data, max_size), True
    except _TooLargeError:
        return b"", False


def _cramjam(codec: int) -> ModuleType:
    try:
        import cramjam
    except ImportError:
        name = CODEC_NAMES[codec]
        raise UnsupportedCodecError(
            f"{name} needs the package cramjam; pip install cramjam"
        ) from None
    module: ModuleType = cramjam
    return module


class _TooLargeError(CorruptBatchError):
    """The decompressed data exceeds the limit."""


def _too_large(codec: int, max_size: int) -> CorruptBatchError:
    return _TooLargeError(f"{CODEC_NAMES[codec]} data of more than {max_size} bytes decompressed")


def _too_many_blocks(codec: int) -> CorruptBatchError:
    return _corrupt(codec, f"it has more than {_MAX_BLOCKS} blocks")


def _corrupt(codec: int, why: object) -> CorruptBatchError:
    return CorruptBatchError(f"{CODEC_NAMES[codec]} data can't be decompressed: {why}")


# gzip

#: Producers write one member. Java recurses for each empty one, and fails at some thousands.
_GZIP_MEMBERS = 100


def _gzip(data: bytes, level: int | None) -> bytes:
    import zlib

    compressor = zlib.compressobj(-1 if level is None else level, wbits=31)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, max_size: int) -> bytes:
    """Decompress all members of a gzip stream."""
    decompressed, is_whole = _gunzip_front(data, max_size)
    if not is_whole:
        raise _too_large(GZIP, max_size)
    return decompressed


def _gunzip_front(data: Buffer, max_size: int) -> tuple[bytes, bool]:
    """Return the first `max_size` bytes, and whether they are complete."""
    import zlib

    parts: list[bytes] = []
    room = max_size
    rest: Buffer = data
    for _ in range(_GZIP_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise _corrupt(GZIP, error) from None
        if len(part) > room:
            parts.append(part[:room])
            return b"".join(parts), False
        room -= len(part)
        if not member.eof:
            raise _corrupt(GZIP, "it is truncated")
        parts.append(part)
        rest = member.unused_data
        if not rest:
            return b"".join(parts) if len(parts) > 1 else part, True
    raise _corrupt(GZIP, f"it has more than {_GZIP_MEMBERS} members")


# snappy

#: The header of Kafka's Java clients: magic, then version and lowest compatible version.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
#: The block size of Kafka's Java clients.
_XERIAL_BLOCK = 32 * 1024
#: The densest element of the format copies 64 bytes with 3.
_SNAPPY_RATIO = 22


def _snappy_xerial(data: bytes) -> bytes:
    pack = _cramjam(SNAPPY).snappy.compress_raw
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(pack(data[start : start + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, max_size: int) -> bytes:
    """Decompress the blocks after a xerial header, or one raw block."""
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _unsnappy_block(view, max_size, max_size)
    if len(view) < len(_XERIAL_HEADER):
        raise _corrupt(SNAPPY, "it is truncated")
    parts: list[bytes] = []
    room = max_size
    cursor = len(_XERIAL_HEADER)
    while cursor < len(view):
        if len(parts) == _MAX_BLOCKS:
            raise _too_many_blocks(SNAPPY)
        size = int.from_bytes(view[cursor : cursor + 4], "big")
        cursor += 4
        if cursor + size > len(view):
            raise _corrupt(SNAPPY, f"a block of {size} bytes where {len(view) - cursor} are left")
        part = _unsnappy_block(view[cursor : cursor + size], room, max_size)
        room -= len(part)
        parts.append(part)
        cursor += size
    return b"".join(parts)


def _unsnappy_block(block: memoryview, room: int, max_size: int) -> bytes:
    snappy: Any = _cramjam(SNAPPY).snappy
    try:
        size = snappy.decompress_raw_len(block)
        if size > room:
            raise _too_large(SNAPPY, max_size)
        if size > len(block) * _SNAPPY_RATIO:
            raise _corrupt(SNAPPY, f"{size} bytes can't come out of {len(block)}")
        return bytes(snappy.decompress_raw(block, size))
    except _cramjam(SNAPPY).DecompressionError as error:
        raise _corrupt(SNAPPY, error) from None


# lz4 and zstd frames


#: Version 1, independent blocks of at most 64 KiB, no content size, no checksum but the header's.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
#: The bit in a block's size that marks an uncompressed block.
_LZ4_STORED = 1 << 31


def _lz4_frame(data: bytes, level: int | None) -> bytes:
    """Write the frame of Kafka's Java clients; with a level, it has a checksum per block."""
    lz4: Any = _cramjam(LZ4).lz4
    if level is not None:  # only a whole frame can be compressed at a level
        compressor = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(bytes(4))
    return b"".join(parts)


def _decompress_frame(codec: int, module: Any, data: Buffer, bound: int, max_size: int) -> bytes:
    """Decompress into a buffer of the maximum size of the result."""
    buffer = bytearray(min(bound, max_size))
    decompressed, is_whole = _decompress_into(codec, module, data, buffer, bound)
    if not is_whole:
        raise _too_large(codec, max_size)
    return decompressed


def _decompress_into(
    codec: int, module: Any, data: Buffer, buffer: bytearray, bound: int
) -> tuple[bytes, bool]:
    """Decompress into the buffer; return what fits, and whether that is all."""
    try:
        size = module.decompress_into(data, buffer)
    except _cramjam(codec).DecompressionError as error:
        if bound > len(buffer) and "whole buffer" in str(error):
            return bytes(buffer), False
        raise _corrupt(codec, error) from None
    return bytes(memoryview(buffer)[:size]), True


#: Data within the decompression limit needs no more blocks than this, in any codec. Hundreds of
#: thousands of empty blocks would block the event loop.
_MAX_BLOCKS = 4096
_LZ4_MAGIC = 0x184D2204
#: An lz4 block decompresses to less than 255 times its size.
_LZ4_RATIO = 255


def lz4_bound(data: Buffer) -> int:
    """Bound the decompressed size of the frames in `data` by their block headers."""
    view = memoryview(data)
    bound = 0
    cursor = 0
    blocks = 0
    while cursor < len(view):
        if int.from_bytes(view[cursor : cursor + 4], "little") != _LZ4_MAGIC:
            raise _corrupt(LZ4, "it does not begin with a frame")
        # Flags: 0x01 dictionary id, 0x04 content checksum, 0x08 content size, 0x10 block checksums.
        flags, block_flags = _bytes_at(LZ4, view, cursor + 4, 2)
        block_max = 1 << (8 + 2 * (block_flags >> 4 & 7))
        cursor += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while size := int.from_bytes(_bytes_at(LZ4, view, cursor, 4), "little"):
            compressed = size & ~_LZ4_STORED
            bound += min(block_max, compressed if size & _LZ4_STORED else compressed * _LZ4_RATIO)
            cursor += 4 + compressed + (4 if flags & 0x10 else 0)
            blocks += 1
            if blocks > _MAX_BLOCKS:
                break
        blocks += 1
        if blocks > _MAX_BLOCKS:
            raise _too_many_blocks(LZ4)
        cursor += 4 + (4 if flags & 0x04 else 0)
    return bound


def with_lz4_checksum(data: bytes) -> bytes:
    """The frame with the right checksum of its header: Kafka's clients wrote a wrong one once.

    Until Kafka 0.9 they included the frame's magic number.
    """
    flags = _bytes_at(LZ4, memoryview(data), 4, 2)[0]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum = _short_xxh32(data[4:end]) >> 8 & 0xFF
    return b"".join((data[:end], bytes([checksum]), data[end + 1 :]))


def _short_xxh32(data: bytes) -> int:
    """xxHash of fewer than 16 bytes, as is an lz4 frame's header; cramjam does not have it."""
    assert len(data) < 16
    mask = 0xFFFF_FFFF
    number = 374761393 + len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        number += int.from_bytes(data[start : start + 4], "little") * 3266489917
        number = _rotated(number & mask, 17) * 668265263 & mask
    for byte in data[whole:]:
        number = _rotated(number + byte * 374761393 & mask, 11) * 2654435761 & mask
    number = (number ^ number >> 15) * 2246822519 & mask
    number = (number ^ number >> 13) * 3266489917 & mask
    return number ^ number >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & 0xFFFF_FFFF


_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_MAX_BLOCK = 128 * 1024
_ZSTD_SKIPPABLE = 0x184D2A50


def zstd_bound(data: Buffer) -> int:
    """Bound the decompressed size of the frames in `data` by their block headers.

    The content size is not used: it may be missing or wrong.
    """
    view = memoryview(data)
    bound = 0
    cursor = 0
    blocks = 0
    while cursor < len(view):
        blocks += 1
        if blocks > _MAX_BLOCKS:
            raise _too_many_blocks(ZSTD)
        magic = int.from_bytes(_bytes_at(ZSTD, view, cursor, 4), "little")
        if magic & 0xFFFF_FFF0 == _ZSTD_SKIPPABLE:
            cursor += 8 + int.from_bytes(_bytes_at(ZSTD, view, cursor + 4, 4), "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise _corrupt(ZSTD, "it does not begin with a frame")
        descriptor = _bytes_at(ZSTD, view, cursor + 4, 1)[0]
        cursor += 5 + _zstd_header_rest(descriptor)
        last = False
        while not last:
            header = int.from_bytes(_bytes_at(ZSTD, view, cursor, 3), "little")
            last = bool(header & 1)
            kind, size = header >> 1 & 3, header >> 3
            # Kinds: 0 raw, 1 one byte repeated, 2 compressed.
            bound += size if kind < 2 else _ZSTD_MAX_BLOCK
            cursor += 3 + (1 if kind == 1 else size)
            blocks += 1
            if blocks > _MAX_BLOCKS:
                raise _too_many_blocks(ZSTD)
        cursor += 4 if descriptor & 0x04 else 0
    return bound


def _zstd_header_rest(descriptor: int) -> int:
    """The size of the window, dictionary id and content size after the descriptor."""
    single_segment = descriptor >> 5 & 1
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    return (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size


def _bytes_at(codec: int, view: memoryview, cursor: int, size: int) -> memoryview:
    if cursor + size > len(view):
        raise _corrupt(codec, "it is truncated")
    return view[cursor : cursor + size]
