"""Partitions of many keys at once, as Kafka's default partitioner chooses them (murmur2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


def partitions_of(keys: pa.BinaryArray, count: int) -> NDArray[np.int64]:
    """The partition of each key of a topic with `count` partitions; a null counts as empty."""
    return (murmur2(keys) & np.uint32(0x7FFF_FFFF)).astype(np.int64) % count


def murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """The 32-bit hash of each key; the words of all keys are mixed in together, one by one."""
    edges = np.frombuffer(keys.buffers()[1], dtype=np.int32)
    edges = edges[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = edges[:-1] - edges[0], np.diff(edges)
    content = keys.buffers()[2]
    # 4 more bytes, so that a word can be read at the end.
    octets = bytes(memoryview(content)[edges[0] : edges[-1]] if content else b"") + bytes(4)
    words = np.ndarray((len(octets) - 3,), dtype="<u4", buffer=octets, strides=(1,))

    hashes: NDArray[np.uint32] = _SEED ^ lengths.astype(np.uint32)
    whole = lengths >> 2
    longer = np.flatnonzero(whole)
    number = 0
    while len(longer):
        mixed = words[starts[longer] + 4 * number] * _M
        mixed ^= mixed >> 24
        hashes[longer] = hashes[longer] * _M ^ mixed * _M
        number += 1
        longer = longer[whole[longer] > number]
    rest = lengths & 3
    tails = np.flatnonzero(rest)
    if len(tails):
        mask = (np.uint32(1) << (8 * rest[tails]).astype(np.uint32)) - np.uint32(1)
        tail = words[starts[tails] + 4 * whole[tails]] & mask
        hashes[tails] = (hashes[tails] ^ tail) * _M
    hashes ^= hashes >> 13
    hashes *= _M
    hashes ^= hashes >> 15
    return hashes
