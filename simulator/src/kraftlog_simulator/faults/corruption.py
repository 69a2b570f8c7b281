"""Corrupts fetch responses.

They are truncated, or have a flipped bit, a wrong epoch or a repeated batch, or lack the first
batches.

A host drops a batch that is truncated or has a wrong checksum, and everything after it. The core
must detect the other kinds (KAFKA-18723). The checksum of a batch does not cover its epoch: a
flipped bit that makes another valid epoch cannot be noticed, so no bit of an epoch is flipped.
"""

from __future__ import annotations

from kraftlog.records.header import HEADER_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import FetchResult
    from kraftlog_simulator.rng import Rng

#: The positions of the leader epoch in a batch.
EPOCH_BYTES = range(12, 16)


def corrupted(body: FetchResult, rng: Rng) -> FetchResult:
    """A corrupt response, as the receiver's host passes it to the core, which must validate it."""
    batches = body.batches
    place = rng.below(len(batches))
    kind = rng.below(4)
    if kind == 0:
        batches = batches[:place]  # truncated in this batch, or its checksum is wrong
    elif kind == 1:  # a batch has a newer epoch than the leader
        too_new = batches[place].replace(epoch=body.epoch + 1 + rng.below(3))
        batches = (*batches[:place], too_new, *batches[place + 1 :])
    elif kind == 2:  # the same batch twice
        batches = (*batches[: place + 1], *batches[place:])
    else:  # begins after the requested offset
        batches = batches[1 + rng.below(len(batches)) :]
    return body.replace(batches=batches)


def damaged(data: bytes, rng: Rng) -> bytes:
    """The bytes of batches, truncated or with a flipped bit; unchanged if an epoch is hit."""
    place = rng.below(len(data))
    if rng.below(2):
        return data[:place]
    if _is_epoch(data, place):
        return data
    flipped = bytearray(data)
    flipped[place] ^= 1 << rng.below(8)
    return bytes(flipped)


def _is_epoch(data: bytes, place: int) -> bool:
    start = 0
    while start + HEADER_SIZE <= len(data):
        if place - start in EPOCH_BYTES:
            return True
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    return False
