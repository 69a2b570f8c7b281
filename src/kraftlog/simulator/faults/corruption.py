"""Corrupt fetch responses.

They are truncated, or have a flipped bit, a wrong epoch or a repeated batch, or lack the first
batches.

A host drops a batch that is truncated or has a wrong checksum, and everything after it. The rest is
for the core to detect (KAFKA-18723). The epoch in a batch's header has no checksum: a flip into
another valid one cannot be noticed, so none is made.
"""

from __future__ import annotations

from kraftlog.records.header import HEADER_SIZE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import FetchResult
    from kraftlog.simulator.rng import Rng

#: The position of a batch's leader epoch.
EPOCH = range(12, 16)


def corrupted(body: FetchResult, rng: Rng) -> FetchResult:
    """A corrupt response, as the receiver's host passes it to the core, which must validate it."""
    batches = body.batches
    place = rng.below(len(batches))
    kind = rng.below(4)
    if kind == 0:
        batches = batches[:place]  # truncated in this batch, or its checksum is wrong
    elif kind == 1:  # of an epoch after the leader's
        beyond = batches[place].replace(epoch=body.epoch + 1 + rng.below(3))
        batches = (*batches[:place], beyond, *batches[place + 1 :])
    elif kind == 2:  # the same batch twice
        batches = (*batches[: place + 1], *batches[place:])
    else:  # begins after the requested offset
        batches = batches[1 + rng.below(len(batches)) :]
    return body.replace(batches=batches)


def damaged(data: bytes, rng: Rng) -> bytes:
    """The bytes of batches, truncated somewhere or with a bit flipped."""
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
