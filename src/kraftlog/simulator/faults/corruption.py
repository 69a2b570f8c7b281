"""Answers to fetches that are not what was sent: cut off, flipped, overlapping, of a wrong epoch.

What a host can see, it drops, with all that follows: a batch that ends too early, or whose checksum
is wrong. The rest is the core's to see (KAFKA-18723). The epoch in a batch's header is under no
checksum: flipped into another that fits, it can't be noticed, so it is left alone.
"""

from __future__ import annotations

from kraftlog.records.header import HEADER_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import FetchResult
    from kraftlog.simulator.rng import Rng

#: Where a batch's leader epoch stands.
EPOCH = range(12, 16)


def garbled(body: FetchResult, rng: Rng) -> FetchResult:
    """As the receiver's host hands it over, or the core has to judge it."""
    batches = body.batches
    place = rng.below(len(batches))
    kind = rng.below(4)
    if kind == 0:
        batches = batches[:place]  # cut in this batch, or its checksum is wrong
    elif kind == 1:
        beyond = batches[place].replace(epoch=body.epoch + 1 + rng.below(3))
        batches = (*batches[:place], beyond, *batches[place + 1 :])
    elif kind == 2:
        batches = (*batches[: place + 1], *batches[place:])
    else:
        batches = batches[1 + rng.below(len(batches)) :]
    return body.replace(batches=batches)


def damaged(data: bytes, rng: Rng) -> bytes:
    """The bytes of batches, cut off somewhere or with a bit flipped."""
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
        if place - start in EPOCH:
            return True
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    return False
