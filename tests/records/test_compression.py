"""The codecs: round trips, other libraries' framings, hostile input and bombs.

test_builder.py reads the output of Kafka's own compressors; produce_cases.py shows that a Kafka
broker reads ours.
"""

from __future__ import annotations

import gzip
import random
import sys
import tracemalloc
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import CorruptBatchError, ErrorCode
from kraftlog.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    decompress_front,
    lz4_bound,
    zstd_bound,
)

SAMPLE = b"".join(b"record %d of a log; " % number for number in range(10_000))
SIZES = (0, 1, 32 * 1024, 32 * 1024 + 1, len(SAMPLE))
all_codecs = pytest.mark.parametrize("codec", range(len(CODEC_NAMES)), ids=CODEC_NAMES)
compressing_codecs = pytest.mark.parametrize(
    "codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODEC_NAMES[1:]
)


@all_codecs
@pytest.mark.parametrize("size", SIZES)
def test_compressed_data_round_trips(codec: int, size: int) -> None:
    compressed = compress(codec, SAMPLE[:size])
    assert decompress(codec, memoryview(compressed), max(size, 1)) == SAMPLE[:size]


@compressing_codecs
@given(data=st.binary(max_size=2000), repeats=st.integers(1, 100))
def test_repeated_bytes_round_trip(codec: int, data: bytes, repeats: int) -> None:
    compressed = compress(codec, data * repeats)
    assert decompress(codec, compressed, len(data) * repeats) == data * repeats


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_levels_differ_in_size_and_not_in_content(codec: int) -> None:
    rng = random.Random(0)
    data = b"".join(b"%d " % rng.getrandbits(10) for _ in range(20_000))
    outputs = {compress(codec, data, level) for level in (None, 1, 9)}
    assert len(outputs) > 1
    assert {decompress(codec, compressed, len(data)) for compressed in outputs} == {data}


@all_codecs
def test_data_larger_than_the_maximum_size_is_refused(codec: int) -> None:
    compressed = compress(codec, SAMPLE)
    with pytest.raises(CorruptBatchError, match=f"{CODEC_NAMES[codec]} data of more than 19999"):
        decompress(codec, compressed, 19_999)
    with pytest.raises(CorruptBatchError, match="data of more than"):
        decompress(codec, compressed, len(SAMPLE) - 1)


@compressing_codecs
def test_a_bomb_allocates_at_most_a_few_times_the_limit(codec: int) -> None:
    """The data decompresses to four hundred times the limit."""
    limit = 1 << 18
    compressed = compress(codec, bytes(400 * limit))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="data of more than"):
            decompress(codec, compressed, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * limit


@compressing_codecs
@pytest.mark.parametrize("end", [0, 1, 3, 4, 7, 12, 20, 30, -1])
def test_truncated_data_is_refused(codec: int, end: int) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, compress(codec, SAMPLE[:100])[:end], 1 << 20)


@compressing_codecs
@given(position=st.integers(0, 2**32), bit=st.integers(0, 7))
def test_a_flipped_bit_raises_only_corrupt_batch_errors(
    codec: int, position: int, bit: int
) -> None:
    compressed = bytearray(compress(codec, SAMPLE[:5000]))
    compressed[position % len(compressed)] ^= 1 << bit
    with suppress(CorruptBatchError):
        decompress(codec, compressed, 6000)


@compressing_codecs
@given(data=st.binary(max_size=100))
def test_arbitrary_bytes_raise_only_corrupt_batch_errors(codec: int, data: bytes) -> None:
    heads = (
        b"",
        gzip.compress(b"")[:10],
        b"\x82SNAPPY\0" + bytes(8),
        b"\x04\x22\x4d\x18\x60\x40\x82",
    )
    for head in (*heads, b"\x28\xb5\x2f\xfd\x00\x58"):
        with suppress(CorruptBatchError):
            decompress(codec, head + data, 1 << 16)


def test_all_members_of_gzip_are_decompressed() -> None:
    assert decompress(GZIP, gzip.compress(b"ab") + gzip.compress(b"cd"), 4) == b"abcd"
    with pytest.raises(CorruptBatchError, match="more than 3"):
        decompress(GZIP, gzip.compress(b"ab") + gzip.compress(b"cd"), 3)


def test_snappy_is_read_with_and_without_a_frame() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SAMPLE))
    assert decompress(SNAPPY, raw, len(SAMPLE)) == SAMPLE
    framed = compress(SNAPPY, SAMPLE)
    assert framed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    blocks = []
    rest = framed[16:]
    while rest:
        size = int.from_bytes(rest[:4], "big")
        blocks.append(bytes(cramjam.snappy.decompress_raw(rest[4 : 4 + size])))
        rest = rest[4 + size :]
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}
    assert b"".join(blocks) == SAMPLE


def test_a_snappy_size_beyond_the_format_is_refused() -> None:
    compressed = b"\xff\xff\x7f" + b"\0a"  # declares two million bytes, and contains one
    with pytest.raises(CorruptBatchError, match="can't come out of 5"):
        decompress(SNAPPY, compressed, 1 << 30)


def test_lz4_frames_are_those_of_kafka() -> None:
    """Version 1, independent blocks of 64 KiB, no checksum or size of the content."""
    assert compress(LZ4, SAMPLE)[:7] == bytes.fromhex("04224d18604082")
    noise = random.Random(0).randbytes(100_000)
    assert len(compress(LZ4, noise)) == 7 + 4 + 65536 + 4 + 34464 + 4
    assert decompress(LZ4, compress(LZ4, noise), len(noise)) == noise
    assert bytes(cramjam.lz4.decompress(compress(LZ4, SAMPLE))) == SAMPLE


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("stored_size", [False, True])
def test_lz4_agrees_with_another_library(linked: bool, checksums: bool, stored_size: bool) -> None:
    compressed = lz4.frame.compress(
        SAMPLE,
        block_size=lz4.frame.BLOCKSIZE_MAX256KB,
        block_linked=linked,
        content_checksum=checksums,
        block_checksum=checksums,
        store_size=stored_size,
    )
    assert decompress(LZ4, compressed, len(SAMPLE)) == SAMPLE
    assert lz4.frame.decompress(compress(LZ4, SAMPLE)) == SAMPLE
    assert lz4.frame.decompress(compress(LZ4, b"")) == b""


def test_zstd_agrees_with_another_library() -> None:
    for sized in (False, True):
        compressor = zstandard.ZstdCompressor(write_content_size=sized, write_checksum=not sized)
        assert decompress(ZSTD, compressor.compress(SAMPLE), len(SAMPLE)) == SAMPLE
    assert zstandard.ZstdDecompressor().decompress(compress(ZSTD, SAMPLE)) == SAMPLE


def lz4_frame(flags: int, *blocks: bytes, size: bytes = b"", end: bytes = b"") -> bytes:
    """An LZ4 frame; `lz4_bound` does not check the checksum of its header."""
    head = b"\x04\x22\x4d\x18" + bytes([flags, 0x40]) + size + b"\0"
    return head + b"".join(blocks) + bytes(4) + end


def test_lz4_bound_is_computed_from_the_block_headers() -> None:
    compressed = (10).to_bytes(4, "little") + bytes(10)
    stored = (20 | 1 << 31).to_bytes(4, "little") + bytes(20)
    assert lz4_bound(lz4_frame(0x60, compressed)) == 2550
    assert lz4_bound(lz4_frame(0x60, compressed, stored)) == 2570
    assert lz4_bound(lz4_frame(0x64, stored, end=bytes(4))) == 20
    assert lz4_bound(lz4_frame(0x68, stored, size=bytes(8))) == 20
    assert lz4_bound(lz4_frame(0x70, stored + bytes(4), stored + bytes(4))) == 40
    assert lz4_bound(lz4_frame(0x60, stored) + lz4_frame(0x60, stored)) == 40
    large = (5000).to_bytes(4, "little") + bytes(5000)
    assert lz4_bound(lz4_frame(0x60, large)) == 64 * 1024
    with pytest.raises(CorruptBatchError, match="begin with a frame"):
        lz4_bound(b"\x04\x22\x4d\x19" + bytes(20))


@given(data=st.binary(max_size=3000), repeats=st.integers(1, 200))
def test_bounds_are_never_below_the_decompressed_size(data: bytes, repeats: int) -> None:
    data *= repeats
    assert len(data) <= lz4_bound(bytes(cramjam.lz4.compress(data)))
    assert len(data) <= lz4_bound(compress(LZ4, data))
    assert len(data) <= zstd_bound(compress(ZSTD, data))


def zstd_block(kind: int, size: int, body: bytes, *, last: bool) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + body


def test_zstd_without_a_content_size_is_read() -> None:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(SAMPLE)
    compressed = bytes(compressor.finish())
    assert compressed[4] >> 6 == compressed[4] >> 5 & 1 == 0
    assert decompress(ZSTD, compressed, len(SAMPLE)) == SAMPLE


def test_all_zstd_frames_are_decompressed_except_skippable_ones() -> None:
    skippable = b"\x53\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    compressed = skippable + compress(ZSTD, b"one") + skippable + compress(ZSTD, b"two")
    assert decompress(ZSTD, compressed, 6) == b"onetwo"


def test_a_zstd_bomb_of_run_length_blocks_is_refused() -> None:
    """A block of four bytes decompresses to 128 KiB, so a megabyte of them to 32 GiB."""
    run = zstd_block(1, 128 * 1024, b"x", last=False)
    head, end = b"\x28\xb5\x2f\xfd\x00\x58", zstd_block(0, 0, b"", last=True)
    bomb = head + run * 4_000 + end
    assert zstd_bound(bomb) == 4_000 * 128 * 1024
    with pytest.raises(CorruptBatchError, match="more than 1000000"):
        decompress(ZSTD, bomb, 1_000_000)
    with pytest.raises(CorruptBatchError, match="more than 4096 blocks"):
        decompress(ZSTD, head + run * 250_000 + end, 1_000_000)


def test_a_wrong_zstd_content_size_is_ignored() -> None:
    """The frame declares 2^62 bytes and contains three."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xC0]) + b"\x58" + (1 << 62).to_bytes(8, "little")
    frame += zstd_block(0, 3, b"abc", last=True)
    assert zstd_bound(frame) == 3
    with pytest.raises(CorruptBatchError):
        decompress(ZSTD, frame, 1 << 20)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"unknown compression codec {codec}") as caught:
        compress(codec, b"")
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(CorruptBatchError, match=f"unknown compression codec {codec}") as caught:
        decompress(codec, b"", 1)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_a_missing_package_is_named(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = compress(codec, b"data")
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(CorruptBatchError, match="needs the package cramjam") as caught:
        compress(codec, b"data")
    with pytest.raises(CorruptBatchError, match="needs the package cramjam") as caught:
        decompress(codec, compressed, 9)
    assert caught.value.what.startswith(CODEC_NAMES[codec])
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert decompress(GZIP, compress(GZIP, b"data"), 4) == b"data"
    assert compress(NONE, b"data") == b"data"


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=["gzip", "lz4", "zstd"])
def test_the_start_of_oversized_data_is_decompressed(codec: int) -> None:
    compressed = compress(codec, SAMPLE)
    assert decompress_front(codec, compressed, len(SAMPLE)) == (SAMPLE, True)
    assert decompress_front(codec, compressed, 50_000) == (SAMPLE[:50_000], False)


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (GZIP, gzip.compress(b"") * 1000),
        (SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\0\0\0\1\0" * 10_000),
        (LZ4, lz4.frame.compress(b"") * 10_000),
        (ZSTD, zstandard.ZstdCompressor().compress(b"") * 10_000),
        (ZSTD, b"\x50\x2a\x4d\x18\0\0\0\0" * 10_000),
    ],
    ids=["gzip", "snappy", "lz4", "zstd", "zstd, skippable"],
)
def test_thousands_of_empty_blocks_are_refused(codec: int, compressed: bytes) -> None:
    """Skipping each takes microseconds, and a megabyte can contain more than 45,000."""
    with pytest.raises(CorruptBatchError, match="more than"):
        decompress(codec, compressed, 1 << 20)
