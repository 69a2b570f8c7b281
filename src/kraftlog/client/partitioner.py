"""The default partitioner of Kafka's clients."""

from __future__ import annotations

#: The multiplier of murmur2, the seed that Kafka uses, and the mask of 32 bits.
_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK_32 = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash, unsigned."""
    size = len(data)
    h = _SEED ^ size
    tail_start = size & ~3
    for i in range(0, tail_start, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK_32
        k ^= k >> 24
        h = (h * _M & _MASK_32) ^ (k * _M & _MASK_32)
    tail = data[tail_start:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK_32
    h ^= h >> 13
    h = h * _M & _MASK_32
    return h ^ h >> 15


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7FFF_FFFF) % count
