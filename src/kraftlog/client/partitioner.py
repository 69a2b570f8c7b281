"""The default partitioner of Kafka's clients."""

from __future__ import annotations

_M = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _WORD
        k ^= k >> 24
        h = (h * _M & _WORD) ^ (k * _M & _WORD)
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _WORD
    h ^= h >> 13
    h = h * _M & _WORD
    return h ^ h >> 15


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7FFF_FFFF) % count
