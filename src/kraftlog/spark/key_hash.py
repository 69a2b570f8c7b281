"""Partitions of many keys at once, as Kafka's default partitioner chooses them (murmur2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

#: The multiplier of murmur2, and the seed that Kafka uses.
_MULTIPLIER = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


def partitions_of(keys: pa.BinaryArray, count: int) -> NDArray[np.int64]:
    """The partition of each key, out of `count`; a null is hashed like an empty key."""
    return (murmur2(keys) & np.uint32(0x7FFF_FFFF)).astype(np.int64) % count


def murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """The 32-bit hash of each key: in each round, one four-byte word of every key is mixed in."""
    bounds = np.frombuffer(keys.buffers()[1], dtype=np.int32)
    bounds = bounds[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    content = keys.buffers()[2]
    # 4 bytes of padding, so that a word can be read at every offset up to the end.
    padded = bytes(memoryview(content)[bounds[0] : bounds[-1]] if content else b"") + bytes(4)
    words = np.ndarray((len(padded) - 3,), dtype="<u4", buffer=padded, strides=(1,))

    hashes: NDArray[np.uint32] = _SEED ^ lengths.astype(np.uint32)
    word_counts = lengths >> 2
    unfinished = np.flatnonzero(word_counts)
    word_number = 0
    while len(unfinished):
        mixed = words[starts[unfinished] + 4 * word_number] * _MULTIPLIER
        mixed ^= mixed >> 24
        hashes[unfinished] = hashes[unfinished] * _MULTIPLIER ^ mixed * _MULTIPLIER
        word_number += 1
        unfinished = unfinished[word_counts[unfinished] > word_number]
    tail_lengths = lengths & 3
    with_tail = np.flatnonzero(tail_lengths)
    if len(with_tail):
        mask = (np.uint32(1) << (8 * tail_lengths[with_tail]).astype(np.uint32)) - np.uint32(1)
        tail_words = words[starts[with_tail] + 4 * word_counts[with_tail]] & mask
        hashes[with_tail] = (hashes[with_tail] ^ tail_words) * _MULTIPLIER
    hashes ^= hashes >> 13
    hashes *= _MULTIPLIER
    hashes ^= hashes >> 15
    return hashes
